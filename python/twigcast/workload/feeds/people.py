"""Names that the message templates draw from; all invented."""

FIRST = [
    "Ada", "Ben", "Carla", "Deniz", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kaori", "Lars", "Mina",
    "Noor", "Olga", "Pavel", "Quinn",
]  # fmt: skip
LAST = [
    "Albers", "Brandt", "Costa", "Dubois", "Eriksen", "Fontaine", "García", "Haddad", "Ivanova", "Jansen", "Köhler",
    "Nakamura", "O’Neill",
]  # fmt: skip
FIRMS = [
    "Harbour & Lane Ltd", "Nordwind AG", "Café Central GmbH", "Blue Quarry Mining", "Atelier Moreau SARL",
    "Sakura Trading KK", "Orchard Foods plc", "Delta <One> Logistics", "Vega Energie SA", "Granite Insurance",
]  # fmt: skip
CITIES = [
    ("Hamburg", "DE"), ("Lyon", "FR"), ("Porto", "PT"), ("Leeds", "GB"), ("Bergen", "NO"), ("Osaka", "JP"),
    ("Tampere", "FI"), ("Graz", "AT"), ("Ghent", "BE"), ("Zadar", "HR"), ("Cork", "IE"), ("Tulsa", "US"),
]  # fmt: skip
STREETS = ["Hauptstraße", "Rue des Lilas", "Mill Road", "Strandgata", "Via Roma", "Elm Street", "Kerkstraat"]
WORDS = [
    "the", "market", "council", "river", "bridge", "voters", "storm", "harbour", "budget", "minister", "report",
    "night", "final", "season", "court", "record", "trade", "energy", "school", "strike", "agreement", "election",
    "rail", "coast", "hospital", "festival", "water", "price", "talks", "team", "week", "border", "plan", "court",
    "ship", "price", "rain"
]  # fmt: skip
