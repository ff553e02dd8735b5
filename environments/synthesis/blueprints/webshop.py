"""A small web shop: orders of several lines draw on stock, are paid, shipped and sent back."""

from environments.synthesis.blueprint import (
    Action,
    Attribute,
    Blueprint,
    Entity,
    Feature,
    add,
    arg,
    choice,
    code,
    day,
    drop,
    email,
    find,
    flag,
    integer,
    let,
    made,
    money,
    need,
    person,
    put,
    ref,
    the,
    via,
)  # fmt: skip
from environments.synthesis.blueprints.features import (
    complaints,
    depots,
    documents,
    notes,
    reviews,
    staff,
    tags,
)

_OPEN = need("order.status == 'open'", "ORDER_NOT_OPEN", "order {order.number} is {order.status}")

BLUEPRINT = Blueprint(
    domain="webshop",
    titles=("{surname} & {surname} Supplies", "{city} Outfitters"),
    summary="Take orders, mind the stock, ship what is paid and take back what is not wanted.",
    role="You keep the order desk of {title}.",
    words={
        "make": (
            "Alder",
            "Basalt",
            "Cobalt",
            "Drift",
            "Ember",
            "Fjord",
            "Granite",
            "Heath",
            "Juniper",
            "Larch",
        ),
        "ware": (
            "Tent",
            "Stove",
            "Lantern",
            "Backpack",
            "Sleeping Bag",
            "Jacket",
            "Water Filter",
            "Hammock",
            "Map Case",
            "Trail Boots",
        ),
    },
    constants={"MAX_LINES": (4, 5, 6), "MAX_PIECES": (10, 15, 20)},
    entities=(
        Entity(
            "category",
            (
                Attribute("name", made("{make} range")),
                Attribute("discountable", flag(0.6), chance=0.6),
            ),
            rows=(4, 6),
            label="name",
            said="the {}",
        ),
        Entity(
            "product",
            (
                Attribute("name", made("{make} {ware}")),
                Attribute("category", ref("category"), after="in {}"),
                Attribute(
                    "price", money(8, 240), least="cheapest", most="most expensive", editable=True
                ),
                Attribute(
                    "stock",
                    integer(0, 30),
                    least="scarcest",
                    most="best stocked",
                    unit="pieces",
                    given=False,
                    start=0,
                ),
                Attribute("status", choice("active", "discontinued"), before=True, given=False),
                Attribute(
                    "weight_kg", money(0.2, 9, 0.1), chance=0.5, most="heaviest", least="lightest"
                ),
            ),
            rows=(26, 38),
            label="name",
            said="the {}",
            creatable=True,
        ),
        Entity(
            "customer",
            (
                Attribute("name", person()),
                Attribute("email", email(), editable=True),
                Attribute(
                    "city",
                    choice("Leeds", "Cardiff", "Bath", "Derby", "Perth"),
                    after="in {}",
                    editable=True,
                ),
                Attribute("blocked", flag(0.15), given=False),
                Attribute(
                    "customer_since",
                    day(-2000, -30),
                    chance=0.6,
                    least="longest-standing",
                    most="newest",
                ),
            ),
            rows=(24, 36),
            label="name",
            creatable=True,
        ),
        Entity(
            "order",
            (
                Attribute("number", code("WS-#####")),
                Attribute("customer", ref("customer"), after="of {}"),
                Attribute("placed_on", day(-40, 0), least="oldest", most="latest"),
                Attribute("status", choice("open", "paid", "shipped", "cancelled"), before=True),
                Attribute("amount", money(0, 0), least="smallest", most="largest"),
            ),
            rows=(36, 54),
            label="number",
            said="order {}",
        ),
        Entity(
            "order_line",
            (
                Attribute("order", ref("order")),
                Attribute("product", ref("product")),
                Attribute("quantity", integer(1, 4)),
                Attribute("unit_price", money(8, 240)),
            ),
            rows=(70, 80),
            key=("order", "product"),
        ),
        Entity(
            "payment",
            (
                Attribute("order", ref("order"), after="for {}"),
                Attribute("method", choice("card", "transfer", "voucher"), before=True),
                Attribute("amount", money(0, 0), most="largest", least="smallest"),
                Attribute("paid_on", day(-30, 0), least="oldest", most="latest"),
            ),
            rows=(30, 40),
        ),
    ),
    settle=(
        "UPDATE order_lines SET unit_price = (SELECT price FROM products WHERE id = product_id)",
        "UPDATE orders SET amount = round((SELECT coalesce(sum(quantity * unit_price), 0) FROM"
        " order_lines WHERE order_id = orders.id), 2)",
        "UPDATE orders SET status = 'open' WHERE amount = 0",
        "DELETE FROM payments WHERE order_id NOT IN (SELECT id FROM orders WHERE status IN ('paid',"
        " 'shipped')) OR id NOT IN (SELECT min(id) FROM payments GROUP BY order_id)",
        "UPDATE orders SET status = 'open' WHERE status IN ('paid', 'shipped') AND id NOT IN (SELECT"
        " order_id FROM payments)",
        "UPDATE payments SET amount = (SELECT amount FROM orders WHERE id = order_id), paid_on ="
        " (SELECT placed_on FROM orders WHERE id = order_id)",
    ),
    invariants=(
        "SELECT id FROM products WHERE stock < 0",
        "SELECT id FROM orders o WHERE abs(amount - (SELECT coalesce(sum(quantity * unit_price), 0)"
        " FROM order_lines WHERE order_id = o.id)) > 0.01",
        "SELECT id FROM orders WHERE status = 'paid' AND id NOT IN (SELECT order_id FROM payments)",
    ),
    actions=(
        Action(
            "open_order",
            "Open an empty order for a customer; lines are added to it afterwards.",
            (the("customer"), arg("number", code("WS-#####"), "the order number to give it")),
            (
                need("not customer.blocked", "CUSTOMER_BLOCKED", "{customer.name} is blocked"),
                need(
                    "not exists(order, number=number)",
                    "NUMBER_TAKEN",
                    "there is an order {number} already",
                ),
                need(
                    "not exists(order, customer_id=customer.id, status='open')",
                    "ORDER_OPEN",
                    "{customer.name} has an open order already",
                ),
                add(
                    "order",
                    number="number",
                    customer_id="customer.id",
                    placed_on="today()",
                    status="'open'",
                    amount="0",
                ),
            ),
            asks=(
                "open an order with the number {number} for {customer}",
                "start an order for {customer} under the number {number}",
            ),
            policy="A customer has one open order at a time; blocked customers order nothing.",
        ),
        Action(
            "add_line",
            "Put pieces of a product on an open order; they are taken from stock at once.",
            (the("order"), the("product"), arg("quantity", integer(1, 6), "how many pieces")),
            (
                _OPEN,
                need(
                    "product.status == 'active'", "DISCONTINUED", "{product.name} is discontinued"
                ),
                need(
                    "not exists(order_line, order_id=order.id, product_id=product.id)",
                    "ALREADY_ON_ORDER",
                    "{product.name} is on order {order.number} already",
                ),
                need(
                    "quantity <= product.stock",
                    "OUT_OF_STOCK",
                    "{product.stock} pieces of {product.name} are in stock",
                ),
                need(
                    "count(order_line, order_id=order.id) < MAX_LINES",
                    "TOO_MANY_LINES",
                    "order {order.number} has {MAX_LINES} lines already",
                ),
                add(
                    "order_line",
                    order_id="order.id",
                    product_id="product.id",
                    quantity="quantity",
                    unit_price="product.price",
                ),
                put("product", stock="product.stock - quantity"),
                put("order", amount="order.amount + quantity * product.price"),
            ),
            asks=(
                "put {quantity} pieces of {product} on {order}",
                "add {product} to {order}, {quantity} pieces of it",
            ),
            policy="An order has at most {MAX_LINES} lines, each of another product in stock.",
        ),
        Action(
            "remove_line",
            "Take a product off an open order; its pieces go back to stock.",
            (the("order"), the("product")),
            (
                _OPEN,
                find(
                    "line",
                    "order_line",
                    "NOT_ON_ORDER",
                    "{product.name} is not on order {order.number}",
                    order_id="order.id",
                    product_id="product.id",
                ),
                put("product", stock="product.stock + line.quantity"),
                put("order", amount="order.amount - line.quantity * line.unit_price"),
                drop("line"),
            ),
            asks=("take {product} off {order}", "remove {product} from {order}"),
            policy="Lines change only while the order is open.",
        ),
        Action(
            "change_quantity",
            "Set how many pieces of a product an open order is for.",
            (the("order"), the("product"), arg("quantity", integer(1, 6), "how many pieces")),
            (
                _OPEN,
                find(
                    "line",
                    "order_line",
                    "NOT_ON_ORDER",
                    "{product.name} is not on order {order.number}",
                    order_id="order.id",
                    product_id="product.id",
                ),
                need("quantity != line.quantity", "NOTHING_TO_CHANGE", "it is {quantity} already"),
                let("more", "quantity - line.quantity"),
                need(
                    "more <= product.stock",
                    "OUT_OF_STOCK",
                    "{product.stock} more pieces of {product.name} are in stock",
                ),
                put("line", quantity="quantity"),
                put("product", stock="product.stock - more"),
                put("order", amount="order.amount + more * line.unit_price"),
            ),
            asks=(
                "change the quantity of {product} on {order} to {quantity}",
                "make it {quantity} pieces of {product} on {order}",
            ),
        ),
        Action(
            "record_payment",
            "Record that an open order was paid in full.",
            (the("order"), arg("method", choice("card", "transfer", "voucher"), "how it was paid")),
            (
                _OPEN,
                need("order.amount > 0", "EMPTY_ORDER", "order {order.number} has no lines"),
                add(
                    "payment",
                    order_id="order.id",
                    method="method",
                    amount="order.amount",
                    paid_on="today()",
                ),
                put("order", status="'paid'"),
            ),
            asks=("record that {order} was paid by {method}", "mark {order} as paid by {method}"),
            policy="Orders are paid in full or not at all; empty orders are not paid.",
        ),
        Action(
            "ship_order",
            "Hand a paid order to the carrier.",
            (the("order"), via("customer", "order.customer_id")),
            (
                need(
                    "order.status == 'paid'", "NOT_PAID", "order {order.number} is {order.status}"
                ),
                need("not customer.blocked", "CUSTOMER_BLOCKED", "{customer.name} is blocked"),
                let("pieces", "total(order_line, 'quantity', order_id=order.id)"),
                need(
                    "pieces <= MAX_PIECES",
                    "PARCEL_TOO_LARGE",
                    "{pieces} pieces do not fit in a parcel of {MAX_PIECES}",
                ),
                put("order", status="'shipped'"),
            ),
            asks=("ship {order}", "hand {order} to the carrier"),
            policy="Only paid orders of customers who are not blocked are shipped, at most "
            "{MAX_PIECES} pieces.",
        ),
        Action(
            "restock_product",
            "Book pieces of a product that came in.",
            (the("product"), arg("pieces", integer(5, 40, 5), "how many came in")),
            (
                need(
                    "product.status == 'active'", "DISCONTINUED", "{product.name} is discontinued"
                ),
                put("product", stock="product.stock + pieces"),
            ),
            asks=(
                "book {pieces} pieces of {product} into stock",
                "restock {product} by {pieces} pieces",
            ),
            policy="Discontinued products are not restocked.",
        ),
    ),
    features=(
        Feature(
            "returns",
            entities=(
                Entity(
                    "return_case",
                    (
                        Attribute("order", ref("order"), after="for {}"),
                        Attribute(
                            "reason", choice("damaged", "wrong_size", "unwanted"), before=True
                        ),
                        Attribute("opened_on", day(-14, 0), least="oldest", most="latest"),
                        Attribute(
                            "status", choice("open", "refunded", "refused"), after="that is {}"
                        ),
                    ),
                    rows=(12, 18),
                    noun="return",
                ),
            ),
            settle=(
                "DELETE FROM return_cases WHERE order_id NOT IN (SELECT id FROM orders WHERE status ="
                " 'shipped') OR id NOT IN (SELECT min(id) FROM return_cases GROUP BY order_id)",
            ),
            constants={"RETURN_DAYS": (14, 30)},
            actions=(
                Action(
                    "open_return",
                    "Open a return for an order that was shipped.",
                    (
                        the("order"),
                        arg("reason", choice("damaged", "wrong_size", "unwanted"), "why"),
                    ),
                    (
                        need(
                            "order.status == 'shipped'",
                            "NOT_SHIPPED",
                            "order {order.number} is {order.status}",
                        ),
                        need(
                            "days_between(order.placed_on, today()) <= RETURN_DAYS",
                            "TOO_LATE",
                            "order {order.number} is from {order.placed_on}",
                        ),
                        need(
                            "not exists(return_case, order_id=order.id)",
                            "RETURN_EXISTS",
                            "there is a return for it already",
                        ),
                        add(
                            "return_case",
                            order_id="order.id",
                            reason="reason",
                            opened_on="today()",
                            status="'open'",
                        ),
                    ),
                    asks=(
                        "open a return for {order}, the reason being “{reason}”",
                        "register a return for {order} (reason: {reason})",
                    ),
                    policy="Orders can be returned within {RETURN_DAYS} days of being placed.",
                ),
                Action(
                    "settle_return",
                    "Refund or refuse an open return.",
                    (
                        the("return_case"),
                        arg("verdict", choice("refunded", "refused"), "what comes of it"),
                    ),
                    (
                        need(
                            "return_case.status == 'open'",
                            "RETURN_CLOSED",
                            "it is {return_case.status} already",
                        ),
                        put("return_case", status="verdict"),
                    ),
                    asks=("settle {return_case} as {verdict}", "close {return_case} as {verdict}"),
                ),
            ),
        ),
        Feature(
            "vouchers",
            entities=(
                Entity(
                    "voucher",
                    (
                        Attribute("code", code("GIFT-??##")),
                        Attribute("balance", money(5, 80, 5), most="richest", least="poorest"),
                        Attribute(
                            "expires_on",
                            day(-30, 120),
                            after="expiring on {}",
                            least="soonest expiring",
                        ),
                    ),
                    rows=(12, 20),
                    label="code",
                    said="voucher {}",
                    creatable=True,
                ),
            ),
            actions=(
                Action(
                    "top_up_voucher",
                    "Add to the balance of a voucher that has not expired.",
                    (the("voucher"), arg("amount", money(5, 50, 5), "how much")),
                    (
                        need(
                            "voucher.expires_on >= today()",
                            "VOUCHER_EXPIRED",
                            "it expired on {voucher.expires_on}",
                        ),
                        put("voucher", balance="voucher.balance + amount"),
                    ),
                    asks=("top up {voucher} by {amount}", "add {amount} to {voucher}"),
                    policy="Expired vouchers are dead: no top-up, no payment.",
                ),
                Action(
                    "pay_with_voucher",
                    "Pay an open order from a voucher that covers all of it.",
                    (the("order"), the("voucher")),
                    (
                        _OPEN,
                        need(
                            "order.amount > 0", "EMPTY_ORDER", "order {order.number} has no lines"
                        ),
                        need(
                            "voucher.expires_on >= today()",
                            "VOUCHER_EXPIRED",
                            "it expired on {voucher.expires_on}",
                        ),
                        need(
                            "voucher.balance >= order.amount",
                            "BALANCE_TOO_LOW",
                            "the voucher has {voucher.balance}, the order comes to {order.amount}",
                        ),
                        put("voucher", balance="voucher.balance - order.amount"),
                        add(
                            "payment",
                            order_id="order.id",
                            method="'voucher'",
                            amount="order.amount",
                            paid_on="today()",
                        ),
                        put("order", status="'paid'"),
                    ),
                    asks=("pay {order} with {voucher}", "settle {order} from {voucher}"),
                ),
            ),
        ),
        Feature(
            "suppliers",
            entities=(
                Entity(
                    "supplier",
                    (
                        Attribute("name", made("{company}", "{surname} Trading")),
                        Attribute("lead_days", integer(2, 20), least="fastest", most="slowest"),
                        Attribute("active", flag(0.85)),
                    ),
                    rows=(6, 9),
                    label="name",
                    creatable=True,
                ),
                Entity(
                    "purchase",
                    (
                        Attribute("supplier", ref("supplier"), after="from {}"),
                        Attribute("product", ref("product"), after="of {}"),
                        Attribute("quantity", integer(5, 40, 5), most="largest", unit="pieces"),
                        Attribute("expected_on", day(-5, 20), least="earliest", most="latest"),
                        Attribute(
                            "status", choice("pending", "received", "cancelled"), before=True
                        ),
                    ),
                    rows=(18, 28),
                ),
            ),
            actions=(
                Action(
                    "order_stock",
                    "Order pieces of a product from a supplier.",
                    (
                        the("supplier"),
                        the("product"),
                        arg("quantity", integer(5, 40, 5), "how many"),
                    ),
                    (
                        need("supplier.active", "SUPPLIER_INACTIVE", "{supplier.name} is inactive"),
                        need(
                            "product.status == 'active'",
                            "DISCONTINUED",
                            "{product.name} is discontinued",
                        ),
                        need(
                            "not exists(purchase, product_id=product.id, status='pending')",
                            "ALREADY_ORDERED",
                            "{product.name} is on its way already",
                        ),
                        add(
                            "purchase",
                            supplier_id="supplier.id",
                            product_id="product.id",
                            quantity="quantity",
                            status="'pending'",
                            expected_on="days_after(today(), supplier.lead_days)",
                        ),
                    ),
                    asks=(
                        "order {quantity} pieces of {product} from {supplier}",
                        "buy in {quantity} pieces of {product} at {supplier}",
                    ),
                    policy="A product is ordered again only once the last delivery has come.",
                ),
                Action(
                    "receive_purchase",
                    "Book a delivery into stock.",
                    (the("purchase"), via("product", "purchase.product_id")),
                    (
                        need(
                            "purchase.status == 'pending'", "NOT_PENDING", "it is {purchase.status}"
                        ),
                        put("purchase", status="'received'"),
                        put("product", stock="product.stock + purchase.quantity"),
                    ),
                    asks=("book in {purchase}", "receive {purchase}"),
                ),
            ),
        ),
        Feature(
            "loyalty",
            attributes={
                "customer": (
                    Attribute(
                        "points",
                        integer(0, 400, 10),
                        most="keenest",
                        given=False,
                        start=0,
                        unit="points",
                    ),
                )
            },
            constants={"POINTS_PER_ORDER": (10, 25, 50)},
            extends={"ship_order": (put("customer", points="customer.points + POINTS_PER_ORDER"),)},
            actions=(
                Action(
                    "redeem_points",
                    "Take points off a customer's account for a gift.",
                    (the("customer"), arg("points", integer(20, 150, 10), "how many points")),
                    (
                        need(
                            "points <= customer.points",
                            "TOO_FEW_POINTS",
                            "{customer.name} has {customer.points} points",
                        ),
                        put("customer", points="customer.points - points"),
                    ),
                    asks=(
                        "redeem {points} points of {customer}",
                        "take {points} points off the account of {customer}",
                    ),
                    policy="Each order shipped earns {POINTS_PER_ORDER} points.",
                ),
            ),
        ),
        Feature(
            "blocking",
            entities=(
                Entity(
                    "incident",
                    (
                        Attribute("customer", ref("customer")),
                        Attribute("happened_on", day(-90, -1)),
                        Attribute("kind", choice("chargeback", "abuse", "fraud")),
                    ),
                    rows=(12, 20),
                    log=True,
                ),
            ),
            actions=(
                Action(
                    "block_customer",
                    "Note an incident and block the customer.",
                    (
                        the("customer"),
                        arg("kind", choice("chargeback", "abuse", "fraud"), "what happened"),
                    ),
                    (
                        need(
                            "not customer.blocked",
                            "ALREADY_BLOCKED",
                            "{customer.name} is blocked already",
                        ),
                        add(
                            "incident",
                            customer_id="customer.id",
                            happened_on="today()",
                            kind="kind",
                        ),
                        put("customer", blocked="1"),
                    ),
                    asks=(
                        "block {customer} because of {kind}",
                        "note an incident of {kind} and block {customer}",
                    ),
                ),
                Action(
                    "pardon_customer",
                    "Lift the block on a customer without a recent incident of fraud.",
                    (the("customer"),),
                    (
                        need("customer.blocked", "NOT_BLOCKED", "{customer.name} is not blocked"),
                        need(
                            "not exists(incident, customer_id=customer.id, kind='fraud')",
                            "FRAUD_ON_FILE",
                            "{customer.name} has fraud on file",
                        ),
                        put("customer", blocked="0"),
                    ),
                    asks=("lift the block on {customer}", "unblock {customer}"),
                    policy="A customer with fraud on file stays blocked.",
                ),
            ),
        ),
        notes("customer", "asks for invoices by post", "is a reseller", "rings before ordering",
              "wants no advertising"),
        tags("product", "bestseller", "clearance", "handmade", "imported", "seasonal"),
        reviews("customer", "product"),
        complaints("customer"),
        depots("product"),
        documents("order"),
        staff("order", "packer", "clerk", "driver"),
    ),
)
