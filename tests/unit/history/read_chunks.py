"""Decodes tensors of stream 1 from a history file, following server/history/FORMAT.md and nothing else.

    read_chunks.py history.db TENSOR_ID...

Prints a line a record: name attempt numel nan pos_inf min max sum sum_sq subnormal scale. The table's numel is 1000.
Fails unless their scores say what these records do.
"""
import math
import sqlite3
import struct
import sys
import zlib

INTEGER, FLOAT, DOUBLE = range(3)
KINDS = [INTEGER, FLOAT, FLOAT, FLOAT, DOUBLE, DOUBLE] + [INTEGER] * 7 + [DOUBLE] + [INTEGER] * 3
NUMEL = 1000


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        assert self.at + size <= len(self.data)
        self.at += size
        return self.data[self.at - size:self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value


def column(data, n, kind):
    first, second = data.take(2)
    flags, shift, width = first & 7, first >> 3 | (second >> 7) << 5, second & 0x7f
    base = data.varint()
    exceptions = data.take(1)[0] if flags & 4 else 0
    packed = int.from_bytes(data.take((n * width + 7) // 8), "little")
    numbers = [base + (packed >> i * width & (1 << width) - 1) for i in range(n)]
    for _ in range(exceptions):
        place = data.take(1)[0]
        numbers[place] = data.varint()
    if kind == INTEGER:
        return numbers
    values = []
    for number in numbers:
        negative = number & 1 if flags & 2 else flags & 1
        bits = (number >> 1 if flags & 2 else number) << shift
        if kind == FLOAT:
            values.append(struct.unpack("<f", struct.pack("<I", bits | negative << 31))[0])
        else:
            values.append(struct.unpack("<d", struct.pack("<Q", bits | negative << 63))[0])
    return values


def check(data):
    value = 0xcbf29ce484222325 ^ len(data)
    for i in range(0, len(data), 8):
        value = (value ^ int.from_bytes(data[i:i + 8], "little")) * 0x9e3779b97f4a7c15 % (1 << 64)
        value ^= value >> 32
    return value % (1 << 32)


def frame(data, reports):
    """Rows of columns by place in the stretch."""
    if Bytes(data).varint() >> 30 & 1:
        assert struct.unpack("<I", data[-4:])[0] == check(data[:-4])
        data = data[:-4]
    data = Bytes(data)
    mask = data.varint()
    places = list(range(reports))
    if mask >> 31:
        presence = int.from_bytes(data.take((reports + 7) // 8), "little")
        places = [i for i in places if presence >> i & 1]
    columns = {c: column(data, len(places), KINDS[c]) for c in range(17) if mask >> c & 1}
    assert data.at == len(data.data)
    nan = float("nan")
    usual = [None, nan, nan, nan, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 1.0, 0, 1, 0]
    for index, place in enumerate(places):
        row = [columns[c][index] if c in columns else usual[c] for c in range(17)]
        if row[0] is None:
            row[0] = NUMEL * row[15]
        yield place, row


SCORE_KINDS = [FLOAT, DOUBLE, INTEGER, FLOAT, FLOAT, FLOAT, INTEGER]


def float32(value, up=False):
    near = struct.unpack("<f", struct.pack("<f", value))[0]
    if up and near < value:
        near = struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", near))[0] + 1))[0]
    return near


def stored_scores(data, groups):
    """Rows of columns, a group each."""
    assert struct.unpack("<I", data[-4:])[0] == check(data[:-4])
    data = Bytes(data[:-4])
    mask = data.varint()
    columns = {c: column(data, groups, SCORE_KINDS[c]) for c in range(7) if mask >> c & 1}
    assert data.at == len(data.data) and mask < 1 << 7
    rows = []
    for i in range(groups):
        row = [columns[c][i] if c in columns else [math.nan, 1.0, 0, None, math.nan, math.nan, 0][c] for c in range(7)]
        if row[3] is None:
            row[3] = float32(row[0] / row[1])
        rows.append(row)
    return rows


def scores_of(rows):
    """The same from the records of one group; tensors keep their target."""
    peak, scale, target, magnitude, norm, underflow, bad = math.nan, 1.0, 0, math.nan, math.nan, math.nan, 0
    for row in rows:
        not_finite = row[9] + row[10] + row[11]
        finite = row[0] - not_finite
        bad += not_finite
        absmax = max(-row[1], row[2])
        if absmax == absmax:
            if absmax > 0 and not absmax <= peak:
                peak, scale, target = absmax, row[13], row[14]
            magnitude = max(magnitude, float32(absmax / row[13])) if magnitude == magnitude else float32(absmax / row[13])
        if finite:
            value = float32(math.sqrt(row[5]) / row[13], up=True)
            norm = max(norm, value) if norm == norm else value
        if finite > row[6] and row[7]:
            value = float32(row[7] / (finite - row[6]), up=True)
            underflow = max(underflow, value) if underflow == underflow else value
    return [peak, scale, target, magnitude, norm, underflow, bad]


def check_scores(store, number, tensor, attempts, records):
    groups = sorted({-(-attempt // 10) for attempt in attempts})
    blob = store.execute("SELECT frames FROM scores WHERE id = ?", (1 << 40 | number << 20 | tensor // 16,)).fetchone()[0]
    count = struct.unpack_from("<I", blob)[0] // 4 - 1
    content = struct.unpack_from("<I", blob, count * 4)[0]
    assert struct.pack("<I", zlib.crc32(blob[:content])) == blob[content:]
    begin, end = struct.unpack_from("<II", blob, tensor % 16 * 4)
    stored = stored_scores(blob[begin:end], len(groups))
    for group, row in zip(groups, stored):
        expected = scores_of([record for attempt, record in records if -(-attempt // 10) == group])
        assert all(a == b or (a != a and b != b) for a, b in zip(row, expected)), (tensor, group, row, expected)


def main():
    store = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
    for tensor in map(int, sys.argv[2:]):
        stretches = store.execute("SELECT number, reports, attempts FROM stretches WHERE stream = 1 ORDER BY number")
        for number, reports, attempts in stretches.fetchall():
            attempts = [value + i for i, value in enumerate(column(Bytes(attempts), reports, INTEGER))]
            found = store.execute("SELECT frames FROM chunks WHERE id = ?", (1 << 40 | number << 20 | tensor // 64,)).fetchone()
            if not found:
                continue
            count = struct.unpack_from("<I", found[0])[0] // 4 - 1
            content = struct.unpack_from("<I", found[0], count * 4)[0]
            assert struct.pack("<I", zlib.crc32(found[0][:content])) == found[0][content:]
            begin, end = struct.unpack_from("<II", found[0], tensor % 64 * 4)
            if begin == end:
                continue
            rows = list(frame(found[0][begin:end], reports))
            check_scores(store, number, tensor, attempts, [(attempts[place], row) for place, row in rows])
            for place, row in rows:
                low, high = (0.0 if value != value else value for value in row[1:3])
                print(f"t{tensor} {attempts[place]} {row[0]} {row[9]} {row[10]} {low:.9g} {high:.9g} {row[4]:.17g} "
                      f"{row[5]:.17g} {row[7]} {row[13]:g}")


if __name__ == "__main__":
    main()
