"""What goes from the step that makes a release's content to the one that writes it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.typehints import typehints

from pipelines.metrics.metric import Content
from pipelines.metrics.publishable import ContentCoder

TABLE = pa.table({"value": ["a", None], "estimate": [1, 2]})
CONTENT = Content(
    {"count.parquet": TABLE, "report.html": b"a\nb"}, {"n": 3, "of": ["x"]}, ("Say.",)
)


@pytest.mark.parametrize("content", [CONTENT, Content({}, {"reports": 1})], ids=str)
def test_content_goes_to_another_worker_whole(content: Content) -> None:
    coder = coders.registry.get_coder(Content)
    assert isinstance(coder, ContentCoder)
    assert coder.decode(coder.encode(content)) == content


def test_content_of_a_plan_is_weighed_without_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(ContentCoder, "encode")
    coder = coders.registry.get_coder(typehints.Tuple[str, Content])
    assert TABLE.nbytes + 3 <= coder.estimate_size(("count", CONTENT)) < TABLE.nbytes + 20
