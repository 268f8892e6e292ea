"""Declares tensors and hands their addresses to the client: many at a time, for a call a tensor is too dear in Python."""
from __future__ import annotations

import array
import operator
from itertools import compress
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from .. import native
from .models import dtype_of

__all__ = ["Batch", "Scale", "Tensors", "UNSCALED", "local_part", "scalar", "stream_of"]


def local_part(tensor: Any) -> Any:
    """The plain tensor in which this rank holds the elements: a DTensor's local one, a sparse tensor's values, a complex one's
    parts. May hold no element."""
    tensor = getattr(tensor, "_local_tensor", tensor)
    if tensor.layout is torch.sparse_coo:
        tensor = tensor._values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.values()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def scalar(tensor: Any) -> Optional[float]:
    """The value of a one-element tensor in host memory or of a number; None where reading it would wait for a GPU."""
    if not isinstance(tensor, torch.Tensor):
        return float(tensor)
    tensor = getattr(tensor, "_local_tensor", tensor)
    return float(tensor.item()) if tensor.device.type == "cpu" else None


# Called in C over many tensors: a lambda would cost as much as all the rest.
_data_ptr, _numel, _is_contiguous, _device_index = (torch.Tensor.data_ptr, torch.Tensor.numel, torch.Tensor.is_contiguous,
                                                    torch.Tensor.get_device)
_dtype = operator.attrgetter("dtype")
_FEW = 16


def _storage(tensor: Any) -> int:
    try:
        return int(getattr(tensor, "_local_tensor", tensor).untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # sparse: its values are its own
        return 0


class Scale:
    """What values were multiplied by: known on the host, or where it lies on a GPU."""

    __slots__ = ("value", "tensor")

    def __init__(self, value: Optional[float] = 1.0, tensor: Any = None) -> None:
        # Under a scale that is no scale any more, values are what they are.
        self.value = value if value is not None and 0 < value < float("inf") else 1.0
        self.tensor = tensor  # on a GPU, fp32

    def at(self, device: torch.device) -> Optional[int]:
        return self.tensor.data_ptr() if self.tensor is not None and self.tensor.device == device else None


UNSCALED = Scale()


def stream_of(device: torch.device) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)


class Batch:
    """Tensors that are measured at the same moment. `items`: what is declared, in order; `current`: the tensor of an item as it is
    now (a parameter's gradient), None to leave it out; `home`: a tensor like it to declare, None = the item itself, declared once it
    is there; `place`: what of the model it belongs to, where that is not the tensor itself."""

    def __init__(self, tensors: "Tensors", role: int, items: Sequence[Tuple[str, Any]], current: Callable[[Any], Any],
                 home: Optional[Callable[[Any], Any]] = None, place: Optional[Callable[[Any], Any]] = None, **facts: Any) -> None:
        self.tensors, self.role, self.current, self.home, self.place, self.facts = tensors, role, current, home, place, facts
        self.items = list(items)
        self._missing: List[Any] = []
        self._kept: List[Any] = []
        self._ids: Optional["array.array[int]"] = None
        self._plain: Dict[torch.device, Tuple[List[Any], "array.array[int]", "array.array[int]", List[torch.dtype]]] = {}
        self._other: List[Tuple[int, Any]] = []
        self._last: Dict[torch.device, Tuple[Optional[List[int]], Optional["array.array[int]"]]] = {}
        self._single: Dict[torch.device, List[int]] = {}
        self._straight: Dict[torch.device, bool] = {}  # at the last look all that were there lay as they should

    def prepare(self) -> "array.array[int]":
        """Declares those that are there."""
        ids, plain = [], {}  # type: ignore[var-annotated]
        self._other, self._missing = [], []
        self._last.clear()
        for name, item in self.items:
            home = item if self.home is None else self.home(item)
            if home is None or torch.nn.parameter.is_lazy(home):
                self._missing.append(item)
                continue
            number = self.tensors.declare(name, self.role, home, like=self.place and self.place(item), **self.facts)
            if number is None:
                continue
            ids.append(number)
            device = home.device
            ordinary = type(home) in (torch.Tensor, torch.nn.Parameter) and home.layout is torch.strided and not home.is_complex()
            if ordinary and (device.type == "cpu" or self.tensors.on_gpu(device)):
                held = plain.setdefault(device, ([], array.array("I"), array.array("Q"), []))
                held[3].append(self.tensors.dtype(number))
                held[0].append(item)
                held[1].append(number)
                held[2].append(home.numel())
            else:
                self._other.append((number, item))
        self._plain = plain
        self._ids = array.array("I", ids)
        return self._ids

    def measure(self, made: native.Native, scale: Scale = UNSCALED) -> None:
        """Host tensors are measured now; those on GPUs are noted."""
        ids = self._ids
        if ids is None or self._missing and any(self.current(item) is not None for item in self._missing):
            ids = self.prepare()
        if not ids or not made.wants_any(ids):
            return
        current = self.current
        self._kept.clear()
        for device, (items, numbers, numels, dtypes) in self._plain.items():
            packed = self._addresses(device, items, numbers, numels, dtypes, made, scale)
            if device.type == "cpu":
                made.observe_many(numbers, packed, numels, scale.value)
            else:
                made.observe_device_many(numbers, packed, numels, device.index, stream_of(device), scale.at(device), scale.value)
        for number, item in self._other:
            tensor = current(item)
            if tensor is not None:
                self.tensors.measure(made, number, tensor, scale)

    def let_go(self) -> None:
        """Tensors are held from measure() to here, the step that uses them too: what Python makes of each is then made once."""
        self._kept.clear()

    def _addresses(self, device: torch.device, items: List[Any], numbers: "array.array[int]", numels: "array.array[int]",
                   dtypes: List[torch.dtype], made: native.Native, scale: Scale) -> "array.array[int]":
        """Where the items lie now; 0 for those that are not there, or that are no contiguous piece and are measured here, by themselves.
        Tensors that lie where they lay the last time are laid out as they were then, too."""
        tensors = list(map(self.current, items))  # no bytecode runs an item, here and in the next
        self._kept += tensors
        try:
            try:
                now = list(map(_data_ptr, tensors))
            except TypeError:  # one that is not there among them
                now = [0 if t is None else t.data_ptr() for t in tensors]
        except (RuntimeError, NotImplementedError):  # a sparse one among them
            now = []
        before, packed = self._last.get(device, (None, None))
        # Where all lie as they lay, a few tell whether their type has changed (model.half() of a small model).
        if packed is None or now != before or not now or not self._alike(tensors[:_FEW], now[:_FEW], numels[:_FEW], dtypes[:_FEW]):
            if now and self._only_moved(device, tensors, now, numels, dtypes):
                packed = array.array("Q", now)
            else:
                packed = self._look(device, items, numels, dtypes)
            self._last[device] = (now, packed)
        for i in self._single[device]:
            tensor = self.current(items[i])
            if tensor is not None:
                self.tensors.measure(made, numbers[i], tensor, scale)
        return packed

    def _only_moved(self, device: torch.device, tensors: List[Any], now: List[int], numels: "array.array[int]",
                    dtypes: List[torch.dtype]) -> bool:
        """Whether all lay straight at the last look and are laid out now as they were then, wherever: what backward makes anew after each
        zero_grad()."""
        if not self._straight.get(device) or not self._alike(tensors, now, numels, dtypes):
            return False
        there = [t for t in tensors if t is not None] if 0 in now else tensors
        index = -1 if device.type == "cpu" else device.index
        return set(map(_device_index, there)) <= {index} and all(map(_is_contiguous, there))

    @staticmethod
    def _alike(tensors: List[Any], now: List[int], numels: "array.array[int]", dtypes: List[torch.dtype]) -> bool:
        """Whether all that are there are of the types and sizes that they were of at the last look."""
        counts, types = list(numels), dtypes
        if 0 in now:
            there = [t is not None for t in tensors]
            tensors, counts, types = (list(compress(each, there)) for each in (tensors, counts, types))
        return list(map(_dtype, tensors)) == types and list(map(_numel, tensors)) == counts

    def _look(self, device: torch.device, items: List[Any], numels: "array.array[int]", dtypes: List[torch.dtype]) -> "array.array[int]":
        """Notes sizes and layouts as they are now."""
        packed, single, straight = array.array("Q", bytes(8 * len(items))), [], True
        for i, item in enumerate(items):
            tensor = self.current(item)
            if tensor is None:
                continue
            if tensor.dtype is not dtypes[i] or tensor.device != device:
                self.tensors.complain(f"{self.items[i][0]}: a tensor of {tensor.dtype} on {tensor.device} where one of {dtypes[i]} on "
                                      f"{device} was declared")
                straight = False
            elif tensor.layout is torch.strided and tensor.is_contiguous():
                numels[i] = tensor.numel()
                packed[i] = tensor.data_ptr()
            else:
                single.append(i)
                straight = False
        self._single[device] = single
        self._straight[device] = straight
        return packed


class Tensors:
    """The table of tensors of one watch. Numbers are the client's."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self.native: Optional[native.Native] = None
        self.numbers: Dict[Tuple[str, int], Optional[int]] = {}
        self._declared: Dict[int, Tuple[str, torch.dtype]] = {}  # name and type of elements by number
        self.own_shard: Optional[str] = None  # what this rank's part of a divided tensor is called
        self.position: Callable[[Any], int] = lambda thing: 0
        self.copy_of: Callable[[Any], Tuple[Optional[str], Optional[str]]] = lambda thing: (None, None)  # (shard, replica)
        self.complain = complain

    @staticmethod
    def on_gpu(device: torch.device) -> bool:
        return device.type == "cuda" and torch.version.hip is None

    def dtype(self, number: int) -> torch.dtype:
        """What the elements of a declared tensor are."""
        return self._declared[number][1]

    def declare(self, name: str, role: int, tensor: Any, index: Optional[int] = None, optimizer: Optional[str] = None,
                like: Any = None) -> Optional[int]:
        """The tensor's number; None when it can't be measured. like: the parameter whose place in the model it shares."""
        key = (name, role)
        if key in self.numbers:
            return self.numbers[key]
        number: Optional[int] = None
        dtype = dtype_of(tensor.dtype)
        if dtype is None:
            self.complain(f"{name}: elements of {tensor.dtype}")
        elif tensor.device.type != "cpu" and not self.on_gpu(tensor.device):
            self.complain(f"{name}: memory of device {tensor.device}")
        elif self.native is not None:
            home = tensor if like is None else like
            held = getattr(tensor, "_local_tensor", tensor)  # its own numel counts all ranks'
            shard, replica = self.copy_of(home)
            if like is not None and shard is None and role == native.ROLES["gradient"] and held.numel() < like.numel():
                shard, replica = self.own_shard, None  # this rank's part of it
            try:
                number = self.native.add_tensor(name, role, native.DTYPES[dtype], held.numel() * (2 if held.is_complex() else 1),
                                                self.position(home) if index is None else index, shard=shard, replica=replica,
                                                optimizer=optimizer)
                self._declared[number] = (name, getattr(torch, dtype))
            except native.ScalewatchError as error:  # a name that is none, or too many tensors: the others are watched
                self.complain(f"{name}: {error}")
        self.numbers[key] = number
        return number

    def measure(self, made: native.Native, number: int, tensor: Any, scale: Scale = UNSCALED, transient: bool = False) -> None:
        """One tensor of any kind, strided or not. On a GPU noted, or with transient measured now. What can't be measured costs itself
        only."""
        try:
            self._measure(made, number, tensor, scale, transient)
        except native.ScalewatchError:
            raise
        except Exception as error:  # noqa: BLE001: tensors of many classes, some without memory of their own, come by here
            self.complain(f"{self._declared[number][0]}: {type(tensor).__name__}: {str(error).partition(chr(10))[0]}")

    def _measure(self, made: native.Native, number: int, tensor: Any, scale: Scale, transient: bool) -> None:
        part = local_part(tensor)
        if part.numel() == 0:
            return
        name, declared = self._declared[number]
        if part.dtype is not declared:  # the client reads what was declared: autocast was on then and is off now, or the other way
            if declared not in (torch.float32, torch.float64) or part.dtype.itemsize >= declared.itemsize:
                return self.complain(f"{name}: elements of {part.dtype} where there were those of {declared}")
            part = part.to(declared)  # exactly
        if part.data_ptr() == 0:
            return self.complain(f"{name}: its memory is not there")
        device = part.device
        straight = part.is_contiguous()
        if not straight and part.dim() > 8:
            part, straight = part.contiguous(), True
        # A copy made here is gone before what was only noted is measured.
        transient = transient or part.untyped_storage().data_ptr() != _storage(tensor)
        if device.type == "cpu":
            if straight:
                made.observe(number, part.data_ptr(), part.numel(), scale.value)
            else:
                made.observe_strided(number, part.data_ptr(), part.shape, part.stride(), scale.value)
        elif self.on_gpu(device):
            strided = {} if straight else {"sizes": tuple(part.shape), "strides": part.stride()}
            made.observe_device(number, part.data_ptr(), part.numel(), device.index, stream_of(device), scale.at(device), scale.value,
                                transient, **strided)
