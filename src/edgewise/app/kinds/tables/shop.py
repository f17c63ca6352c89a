"""Generator of a shop database with planted relational effects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgewise.app.files.table import Table

REGIONS = ("north", "east", "south", "west")
CATEGORIES = ("books", "games", "garden", "kitchen", "music", "toys")
PRODUCTS = 80
START = np.datetime64("2024-01-01")
RECENT = 90  # Number of days before the date of the question in which defects count.


def shop_tables(num_customers: int, seed: int = 0) -> dict[str, Table]:
    """Return the tables customers, orders and products of a shop.

    With r, the mean of the standardised defects of the products ordered in the last 90 days (0 if
    there are none), n, the number of orders before the date, and the effect g of the region,
    P(churned) = sigmoid(2.5 r + 0.25 (6 - n) + g).
    """
    random = np.random.default_rng(seed)
    defects = random.gamma(2.0, 2.0, PRODUCTS).round(1)
    products = {
        "product_id": [f"p{i}" for i in range(PRODUCTS)],
        "category": random.choice(CATEGORIES, PRODUCTS).tolist(),
        "price": [f"{price:.2f}" for price in random.lognormal(3, 0.6, PRODUCTS)],
        "defects": [f"{rate:.1f}" for rate in defects],
    }
    standardised = (defects - defects.mean()) / defects.std()
    region = random.integers(len(REGIONS), size=num_customers)
    as_of = 365 + random.integers(365, size=num_customers)
    churned = np.zeros(num_customers, dtype=bool)
    orders: list[tuple[int, int, int]] = []  # day, customer and product
    for customer in range(num_customers):
        # A favourite product makes the defects of a customer differ from those of others.
        count = random.poisson(6)
        days = as_of[customer] - random.integers(1, 300, size=count)
        favourite = random.integers(PRODUCTS)
        likes = random.random(count) < 0.3
        bought = np.where(likes, favourite, random.integers(PRODUCTS, size=count))
        recent = standardised[bought[days > as_of[customer] - RECENT]]
        logit = 2.5 * (recent.mean() if len(recent) else 0.0) + 0.25 * (6 - count)
        logit += (region[customer] - 1.5) * 0.4
        churned[customer] = random.random() < 1 / (1 + np.exp(-logit))
        if not churned[customer]:
            later = 1 + random.poisson(3)
            days = np.concatenate([days, as_of[customer] + random.integers(1, 120, size=later)])
            bought = np.concatenate([bought, random.integers(PRODUCTS, size=later)])
        orders += [(int(day), customer, int(p)) for day, p in zip(days, bought, strict=True)]
    orders.sort()
    customers = {
        "customer_id": [f"c{i}" for i in range(num_customers)],
        "region": [REGIONS[i] for i in region],
        "age": random.integers(18, 80, size=num_customers).astype(str).tolist(),
        "as_of": (START + as_of).astype(str).tolist(),
        "churned": np.where(churned, "yes", "no").tolist(),
    }
    quantity = 1 + random.poisson(0.6, size=len(orders))
    ordered = {
        "order_id": [f"o{i}" for i in range(len(orders))],
        "customer_id": [f"c{customer}" for _, customer, _ in orders],
        "product_id": [f"p{product}" for _, _, product in orders],
        "placed_at": (START + np.array([day for day, _, _ in orders])).astype(str).tolist(),
        "quantity": quantity.astype(str).tolist(),
    }
    named = {"customers": customers, "orders": ordered, "products": products}
    return {name: Table.of(name, columns) for name, columns in named.items()}


def write_tables(folder: str | Path, tables: Mapping[str, Table]) -> None:
    """Write each table to a CSV file of a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.frame.to_csv(folder / f"{name}.csv", index=False)
