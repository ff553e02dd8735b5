"""What a person sees and types, tried as a person would."""
