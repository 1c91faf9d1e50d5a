"""Outcomes as JUnit XML, which CI services read: a suite a fixture, a test for each candidate's every gate.

Failures are there exactly where a verdict fails. A passed replay has candidates that fail too: nobody needs them any
more, so their gates are skipped tests, which say why.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from polykv_core import words
from polykv_core.gates import CandidateReplayMetrics, GateVerdict, verdicts
from polykv_core.judged import distinct
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.report.outcome import Outcome
from polykv_core.terminal import inert

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def junit_xml(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as the text of a JUnit XML file in UTF-8. Characters that XML cannot hold become U+FFFD."""
    root = ET.Element("testsuites", name="polykv")
    for outcome in outcomes:
        suite = ET.SubElement(root, "testsuite", name=_held(outcome.name))
        if outcome.receipt is None:
            case = _case(suite, outcome.name, "verdict")
            ET.SubElement(case, "error", message=_held(outcome.error or "no verdict"), type="no_verdict")
        else:
            _add_options(suite, outcome.receipt)
            _add_gates(suite, outcome.receipt)
        _count(suite)
    _count(root)
    ET.indent(root)
    return f"{_HEAD}{ET.tostring(root, encoding='unicode')}\n"


def _add_options(suite: ET.Element, receipt: CapturedReplayReceipt) -> None:
    """What keeps a verdict from being the reference's, if anything does."""
    if receipt.departures:
        properties = ET.SubElement(suite, "properties")
        for departure in receipt.departures:
            ET.SubElement(properties, "property", name="not as the reference replays", value=_held(departure))


def _add_gates(suite: ET.Element, receipt: CapturedReplayReceipt) -> None:
    for candidate in distinct(receipt):
        for verdict in verdicts(candidate, receipt.config):
            k = f"k = {candidate.candidate_k}"
            rule = "off" if verdict.off else words.rule(verdict.gate, verdict.threshold)
            label = f"{verdict.gate.label}{words.over_queries(verdict.statistic)}"
            case = _case(suite, f"{receipt.model_id}, {k}", f"{k}: {label} {rule}")
            _judge(case, verdict, candidate, receipt)


def _judge(
    case: ET.Element, verdict: GateVerdict, candidate: CandidateReplayMetrics, receipt: CapturedReplayReceipt
) -> None:
    """Say in a test what became of it; one that passes says nothing."""
    if verdict.passed:
        if verdict.off:
            ET.SubElement(case, "skipped", message="gate is off")
    elif receipt.passed:
        sign = "<" if verdict.gate.side == "min" else ">"
        value = words.told_apart(verdict.value, verdict.threshold)
        selected = f"k = {receipt.selected_candidate_k} is selected and passes"
        why = f"fails ({value} {sign} {words.number(verdict.threshold, 12)}), but {selected}"
        ET.SubElement(case, "skipped", message=why)
    else:
        failure = ET.SubElement(case, "failure", message=words.blocker(verdict), type="gate")
        failure.text = f"k = {candidate.candidate_k}: {verdict.blocker}"


def _case(suite: ET.Element, of: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_held(of), name=_held(name), time="0")


def _count(element: ET.Element) -> None:
    element.set("tests", str(len(element.findall(".//testcase"))))
    for attribute, tag in _COUNTED.items():
        element.set(attribute, str(len(element.findall(f".//{tag}"))))
    element.set("time", "0")


def _held(text: str) -> str:
    """Text as XML 1.0 can hold it, on one line that does nothing where it is shown."""
    return inert(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))
