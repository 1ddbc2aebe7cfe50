"""Customer credit transfers between banks, after ISO 20022's pacs.008, in their default namespace."""

from __future__ import annotations

from twigcast.workload.feeds import people
from twigcast.workload.feeds.markup import Dice, el, leaf

NAMESPACE = "urn:iso:std:iso:20022:tech:xsd:pacs.008.001.08"
PREFIX = "p"

_BANKS = [
    "DEUTDEFF", "RBOSGB2L", "BNPAFRPP", "NDEAFIHH", "INGBNL2A", "CGDIPTPL", "DNBANOKK", "BOTKJPJT", "GIBAATWG",
    "KREDBEBB",
]  # fmt: skip
_CURRENCIES = ["EUR", "EUR", "EUR", "GBP", "USD", "NOK", "JPY", "CHF"]


def message(d: Dice, number: int) -> str:
    currency = d.pick(_CURRENCIES)
    sent = d.moment()
    transactions = [_transaction(d, currency, number, i) for i in range(d.pick((1, 1, 1, 2, 3)))]
    header = el(
        "GrpHdr",
        leaf("MsgId", f"MSG{number:09d}"),
        leaf("CreDtTm", sent.strftime("%Y-%m-%dT%H:%M:%SZ")),
        leaf("NbOfTxs", len(transactions)),
        d.maybe(0.5, lambda: leaf("IntrBkSttlmDt", sent.date())),
        el(
            "SttlmInf",
            leaf("SttlmMtd", d.pick(("INDA", "INGA", "CLRG", "COVE"))),
            d.maybe(0.02, lambda: el("SttlmAcct", _account_id(d))),
            d.maybe(0.1, lambda: el("ClrSys", leaf("Cd", "TGT") if d.chance() < 0.8 else leaf("Prtry", "LOCAL"))),
            d.maybe(0.02, lambda: _agent(d, "InstgRmbrsmntAgt")),
            d.maybe(0.01, lambda: _agent(d, "ThrdRmbrsmntAgt")),
        ),
        d.maybe(0.3, lambda: _payment_type(d)),
        _agent(d, "InstgAgt"),
        _agent(d, "InstdAgt"),
    )
    body = el("Document", el("FIToFICstmrCdtTrf", header, *transactions), xmlns=NAMESPACE)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _transaction(d: Dice, currency: str, number: int, index: int) -> str:
    amount = d.amount()
    return el(
        "CdtTrfTxInf",
        el(
            "PmtId",
            d.maybe(0.6, lambda: leaf("InstrId", f"I{number}-{index}")),
            leaf("EndToEndId", f"E2E{d.digits(10)}"),
            d.maybe(0.5, lambda: leaf("TxId", f"TX{d.digits(8)}")),
            leaf("UETR", f"{d.hexes(8)}-{d.hexes(4)}-4{d.hexes(3)}-a{d.hexes(3)}-{d.hexes(12)}"),
        ),
        d.maybe(0.03, lambda: _payment_type(d)),
        leaf("IntrBkSttlmAmt", amount, Ccy=currency),
        d.maybe(0.02, lambda: leaf("AccptncDtTm", d.moment().isoformat())),
        d.maybe(0.15, lambda: leaf("InstdAmt", d.amount(), Ccy="USD") + leaf("XchgRate", f"{0.5 + d.chance():.4f}")),
        leaf("ChrgBr", d.pick(("SHAR", "DEBT", "CRED", "SLEV"))),
        d.maybe(0.1, lambda: el("ChrgsInf", leaf("Amt", d.between(1, 40), Ccy=currency), _agent(d, "Agt"))),
        d.maybe(0.03, lambda: _agent(d, "PrvsInstgAgt1")),
        d.maybe(0.08, lambda: _agent(d, "IntrmyAgt1") + d.maybe(0.3, lambda: _agent(d, "IntrmyAgt2"))),
        d.maybe(0.05, lambda: _party(d, "UltmtDbtr")),
        d.maybe(0.02, lambda: _party(d, "InitgPty")),
        _party(d, "Dbtr"),
        el("DbtrAcct", _account_id(d)),
        _agent(d, "DbtrAgt"),
        _agent(d, "CdtrAgt"),
        d.maybe(0.02, lambda: el("CdtrAgtAcct", _account_id(d))),
        _party(d, "Cdtr"),
        el("CdtrAcct", _account_id(d), d.maybe(0.05, lambda: leaf("Ccy", currency))),
        d.maybe(0.05, lambda: _party(d, "UltmtCdtr")),
        d.maybe(0.03, lambda: el("InstrForCdtrAgt", leaf("Cd", "PHOB"), leaf("InstrInf", "Call on arrival"))),
        d.maybe(0.02, lambda: el("InstrForNxtAgt", leaf("InstrInf", f"Ref {d.digits(6)}"))),
        d.maybe(0.4, lambda: el("Purp", leaf("Cd", d.pick(("SALA", "SUPP", "TAXS", "RENT", "GDDS"))))),
        d.maybe(0.04, lambda: _regulatory(d)),
        d.maybe(0.03, lambda: _tax(d, currency)),
        d.maybe(0.02, lambda: _related_remittance(d)),
        d.maybe(0.8, lambda: el("RmtInf", _remittance(d, currency))),
    )


def _payment_type(d: Dice) -> str:
    return el(
        "PmtTpInf",
        d.maybe(0.5, lambda: leaf("InstrPrty", d.pick(("NORM", "HIGH")))),
        d.maybe(0.8, lambda: el("SvcLvl", leaf("Cd", d.pick(("SEPA", "URGP", "G001"))))),
        d.maybe(0.1, lambda: el("LclInstrm", leaf("Cd", "INST") if d.chance() < 0.6 else leaf("Prtry", "RTP"))),
        d.maybe(0.2, lambda: el("CtgyPurp", leaf("Cd", d.pick(("SALA", "TREA", "INTC"))))),
    )


def _agent(d: Dice, name: str) -> str:
    bic = d.pick(_BANKS) + "XXX"
    return el(
        name,
        el(
            "FinInstnId",
            leaf("BICFI", bic),
            d.maybe(0.04, lambda: el("ClrSysMmbId", el("ClrSysId", leaf("Cd", "GBDSC")), leaf("MmbId", d.digits(6)))),
            d.maybe(0.03, lambda: leaf("LEI", d.digits(20))),
            d.maybe(0.05, lambda: leaf("Nm", f"Bank {bic[:4]}") + _address(d)),
        ),
        d.maybe(0.01, lambda: el("BrnchId", leaf("Id", d.digits(4)), leaf("Nm", d.pick(people.CITIES)[0]))),
    )


def _party(d: Dice, name: str) -> str:
    person = d.chance() < 0.5
    label = f"{d.pick(people.FIRST)} {d.pick(people.LAST)}" if person else d.pick(people.FIRMS)
    identity = (
        el("PrvtId", _birth(d) if d.chance() < 0.6 else _other(d, "CUST"))
        if person
        else el("OrgId", leaf("LEI", d.digits(20)) if d.chance() < 0.7 else _other(d, "TXID"))
    )
    return el(
        name,
        leaf("Nm", label),
        d.maybe(0.8, lambda: _address(d)),
        d.maybe(0.1, lambda: el("Id", identity)),
        d.maybe(0.03, lambda: leaf("CtryOfRes", d.pick(people.CITIES)[1])),
        d.maybe(
            0.02, lambda: el("CtctDtls", leaf("PhneNb", f"+49-{d.digits(9)}"), leaf("EmailAdr", "desk@example.org"))
        ),
    )


def _birth(d: Dice) -> str:
    city, country = d.pick(people.CITIES)
    born = f"{d.between(1940, 2005)}-{d.between(1, 12):02d}-{d.between(1, 28):02d}"
    return el("DtAndPlcOfBirth", leaf("BirthDt", born), leaf("CityOfBirth", city), leaf("CtryOfBirth", country))


def _other(d: Dice, scheme: str) -> str:
    scheme_name = leaf("Cd", scheme) if d.chance() < 0.8 else leaf("Prtry", "INTERNAL")
    return el(
        "Othr", leaf("Id", d.digits(9)), el("SchmeNm", scheme_name), d.maybe(0.2, lambda: leaf("Issr", "Registry"))
    )


def _address(d: Dice) -> str:
    city, country = d.pick(people.CITIES)
    if d.chance() < 0.2:
        return el("PstlAdr", leaf("Ctry", country), leaf("AdrLine", f"{d.between(1, 90)} {d.pick(people.STREETS)}"))
    return el(
        "PstlAdr",
        d.maybe(0.03, lambda: leaf("Dept", "Treasury")),
        leaf("StrtNm", d.pick(people.STREETS)),
        d.maybe(0.7, lambda: leaf("BldgNb", d.between(1, 200))),
        d.maybe(0.03, lambda: leaf("PstBx", d.digits(4))),
        leaf("PstCd", d.digits(5)),
        leaf("TwnNm", city),
        d.maybe(0.02, lambda: leaf("CtrySubDvsn", "North")),
        leaf("Ctry", country),
    )


def _account_id(d: Dice) -> str:
    if d.chance() < 0.9:
        return el("Id", leaf("IBAN", f"DE{d.digits(20)}"))
    return el("Id", _other(d, "BBAN"))


def _regulatory(d: Dice) -> str:
    return el(
        "RgltryRptg",
        leaf("DbtCdtRptgInd", d.pick(("DEBT", "CRED", "BOTH"))),
        d.maybe(0.5, lambda: el("Authrty", leaf("Nm", "Central Bank"), leaf("Ctry", d.pick(people.CITIES)[1]))),
        el("Dtls", leaf("Tp", "BOP"), leaf("Dt", d.moment().date()), leaf("Cd", d.digits(3)), leaf("Inf", "Goods")),
    )


def _tax(d: Dice, currency: str) -> str:
    record = el(
        "Rcrd",
        leaf("Tp", "VAT"),
        leaf("Ctgy", "standard"),
        el("Prd", leaf("Yr", "2026"), d.maybe(0.4, lambda: leaf("Tp", "QTR1"))),
        el("TaxAmt", leaf("Rate", d.pick((7, 19, 20, 25))), leaf("TtlAmt", d.amount(), Ccy=currency)),
    )
    return el(
        "Tax",
        el("Cdtr", leaf("TaxId", d.digits(11)), d.maybe(0.3, lambda: leaf("RegnId", d.digits(8)))),
        el("Dbtr", leaf("TaxId", d.digits(11))),
        leaf("RefNb", d.digits(7)),
        leaf("TtlTaxAmt", d.amount(), Ccy=currency),
        record,
    )


def _related_remittance(d: Dice) -> str:
    where = (
        leaf("ElctrncAdr", "remit@example.org")
        if d.chance() < 0.7
        else el("PstlAdr", leaf("Nm", d.pick(people.FIRMS)), el("Adr", leaf("TwnNm", d.pick(people.CITIES)[0])))
    )
    return el("RltdRmtInf", leaf("RmtId", d.digits(8)), el("RmtLctnDtls", leaf("Mtd", d.pick(("EMAL", "POST"))), where))


def _remittance(d: Dice, currency: str) -> str:
    if d.chance() < 0.85:
        return d.some(1, 2, lambda: leaf("Ustrd", f"Invoice {d.digits(6)} & order {d.digits(4)}"))
    return d.some(1, 2, lambda: _structured(d, currency))


def _structured(d: Dice, currency: str) -> str:
    kind = leaf("Cd", d.pick(("CINV", "CREN", "DEBN"))) if d.chance() < 0.85 else leaf("Prtry", "SCHEDULE")
    return el(
        "Strd",
        el(
            "RfrdDocInf",
            el("Tp", el("CdOrPrtry", kind)),
            leaf("Nb", d.digits(8)),
            d.maybe(0.7, lambda: leaf("RltdDt", d.moment().date())),
            d.maybe(0.1, lambda: el("LineDtls", el("Id", leaf("Nb", d.between(1, 9))), leaf("Desc", "Item"))),
        ),
        el(
            "RfrdDocAmt",
            leaf("DuePyblAmt", d.amount(), Ccy=currency),
            d.maybe(0.2, lambda: el("DscntApldAmt", leaf("Amt", d.between(1, 90), Ccy=currency))),
            d.maybe(0.1, lambda: leaf("CdtNoteAmt", d.amount(), Ccy=currency)),
            leaf("RmtdAmt", d.amount(), Ccy=currency),
        ),
        d.maybe(
            0.4,
            lambda: el("CdtrRefInf", el("Tp", el("CdOrPrtry", leaf("Cd", "SCOR"))), leaf("Ref", f"RF{d.digits(12)}")),
        ),
        d.maybe(0.1, lambda: _party(d, "Invcr")),
        d.maybe(0.05, lambda: _party(d, "Invcee")),
        d.maybe(0.1, lambda: leaf("AddtlRmtInf", "As agreed by phone")),
    )
