"""What each byte holds while a plan is replayed."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class _Span:
    """The bytes [first, end) of a region: the byte at `a` is byte `a - start` of `content`."""

    first: int
    end: int
    content: str
    start: int


@dataclass
class Contents:
    """The bytes written so far, region by region, and the names of what lies in them.

    origin: for a view the content that it is a part of, and the byte of it where it begins.
    """

    spans: dict[str, list[_Span]] = field(default_factory=dict)
    origin: dict[str, tuple[str, int]] = field(default_factory=dict)

    def write(self, region: str, offset: int, size: int, content: str) -> None:
        """Fill bytes with `content` from its beginning; what was there is lost."""
        end = offset + size
        kept = []
        for span in self.spans.get(region, []):
            if span.first < offset:
                kept.append(_Span(span.first, min(span.end, offset), span.content, span.start))
            if span.end > end:
                kept.append(_Span(max(span.first, end), span.end, span.content, span.start))
        self.spans[region] = [*kept, _Span(offset, end, content, offset)]

    def view(self, name: str, source: str, offset: int) -> None:
        """Let `name` be another name for the bytes of `source` from `offset` on."""
        content, start = self.origin.get(source, (source, 0))
        self.origin[name] = content, start + offset

    def holds(self, region: str, offset: int, size: int, name: str) -> bool:
        """Say whether `name` is there, all of it and in its place."""
        content, start = self.origin.get(name, (name, 0))
        found = 0
        for span in self.spans.get(region, []):
            first, end = max(span.first, offset), min(span.end, offset + size)
            if first < end and span.content == content and span.start == offset - start:
                found += end - first
        return found == size
