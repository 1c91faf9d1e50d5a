"""What is left of a head with nothing compressed."""

import numpy as np
import pytest
from support import fixture_fields

from polykv_core import CapturedReplayFixture
from polykv_core.inspection import uncompressed


def test_unscaled_attention_reproduces_an_unscaled_capture():
    """Where the captured output is unscaled attention, cosine 1 stands at the unscaled scores, and KL is 0."""
    found = uncompressed(CapturedReplayFixture.from_dict(fixture_fields(head_dim=16)))
    assert found.cosine_unscaled == pytest.approx(1.0, abs=1e-6)
    assert found.cosine_scaled < 0.999
    assert found.kl == pytest.approx(0.0, abs=1e-5)


def test_scaled_attention_reproduces_a_scaled_capture():
    """Where the captured output is attention over scores / sqrt(d), cosine 1 stands at the scaled scores."""
    fields = fixture_fields(head_dim=16)
    for query in fields["queries"]:
        query["query"] = (np.array(query["query"]) * 4.0).tolist()
    found = uncompressed(CapturedReplayFixture.from_dict(fields))
    assert found.cosine_scaled == pytest.approx(1.0, abs=1e-6)
    assert found.cosine_unscaled < 0.999


def test_logits_of_more_than_this_head_show_as_a_kl():
    """Logits that the captured output does not give make the uncompressed KL the exact divergence between the two."""
    fields = fixture_fields(vocab=2, queries=1)
    fields["output_projection"] = np.zeros((2, 8)).tolist()
    fields["queries"][0]["exact_logits"] = [float(np.log(3.0)), 0.0]
    found = uncompressed(CapturedReplayFixture.from_dict(fields))
    assert found.kl == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5), rel=1e-6)


def test_extreme_values_give_numbers_without_a_warning():
    """Values at the end of float32 make no warning (the test run would raise it)."""
    fields = fixture_fields()
    for query in fields["queries"]:
        query["values"] = np.full((6, 8), 3e38).tolist()
        query["keys"] = np.full((6, 8), -3e38).tolist()
    found = uncompressed(CapturedReplayFixture.from_dict(fields))
    assert isinstance(found.cosine_unscaled, float)
