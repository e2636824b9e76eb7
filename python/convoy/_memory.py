"""Host memory kept from call to call: each thread's workspace, and blocks of large results.

The system hands out fresh pages one fault at a time: 60 MiB of them cost a fifth of a 90 ms call. So the workspace stays, and the
memory of a large result serves the next one of its size once nobody holds it any more: no array, view, tensor or storage.
"""

import os
import sys
import threading

import numpy as np

_MOST_WORKSPACE = 512 << 20  # bytes a thread; what is larger goes back after the call
LEAST_RESULT = 1 << 20  # bytes; for less the allocator keeps pages itself
_MOST_RESULTS = 256 << 20  # bytes of blocks remembered


class _Kept(threading.local):
    block, address = np.empty(0, np.uint8), 0


_kept = _Kept()


def workspace(nbytes):
    """(address, owner) of nbytes for this thread, until its next call."""
    if nbytes <= _kept.block.nbytes:
        return _kept.address, _kept.block
    block = np.empty(nbytes, np.uint8)
    address = block.__array_interface__["data"][0]
    if nbytes <= _MOST_WORKSPACE:
        _kept.block, _kept.address = block, address
    return address, block


class _Blocks:
    """Blocks of results of one kind. make(count) gives a block of so many floats, size(block) its bytes, cut(block, shape) a result
    that holds it; holders(list, i) counts who holds the block list[i], the list included."""

    def __init__(self, make, size, cut, holders):
        self.make, self.size, self.cut, self.holders = make, size, cut, holders
        sample = [make(1)]
        self.free = holders(sample, 0)
        held = cut(sample[0], (1,))
        self.counts = holders(sample, 0) > self.free  # an interpreter that counts otherwise gets fresh memory each time
        del held
        self.list, self.lock = [], threading.Lock()

    def clear(self):
        with self.lock:
            self.list = []

    def after_fork(self):
        self.list, self.lock = [], threading.Lock()  # another thread may have held the lock

    def result(self, shape, count):
        """Never waits: a finalizer or a signal's handler may ask for a result while its own thread is in here."""
        if not self.counts:
            return self.cut(self.make(count), shape)
        if self.lock.acquire(blocking=False):
            try:
                for i in range(len(self.list)):  # no variable for the block: it would be one more holder
                    if self.size(self.list[i]) == 4 * count and self.holders(self.list, i) == self.free:
                        self.list.append(self.list.pop(i))
                        return self.cut(self.list[-1], shape)
            finally:
                self.lock.release()
        block = self.make(count)
        result = self.cut(block, shape)
        if self.lock.acquire(blocking=False):
            try:
                self.list.append(block)
                while sum(map(self.size, self.list)) > _MOST_RESULTS:
                    del self.list[0]
            finally:
                self.lock.release()
        return result


_numpy = _Blocks(lambda count: np.empty(count, np.float32), lambda block: block.nbytes, lambda block, shape: block.reshape(shape),
                 lambda blocks, i: sys.getrefcount(blocks[i]))
_torch = None


def _storages(torch):
    use_count = getattr(torch._C, "_storage_Use_Count", None)

    def holders(storages, i):
        """Tensors hold a storage from C++, others its Python object; one moved to shared memory may be held by another process."""
        if use_count is None or storages[i].is_shared():
            return -1
        return use_count(storages[i]._cdata) + sys.getrefcount(storages[i])

    def cut(storage, shape):
        steps, step = [0] * len(shape), 1
        for i in range(len(shape) - 1, -1, -1):
            steps[i], step = step, step * shape[i]
        return torch.empty(0, dtype=torch.float32, device="cpu").set_(storage, 0, shape, steps)

    return _Blocks(lambda count: torch.empty(count, dtype=torch.float32, device="cpu").untyped_storage(), lambda storage: storage.nbytes(), cut, holders)


def numpy_result(shape, nbytes):
    return _numpy.result(shape, nbytes // 4)


def torch_result(torch, shape, nbytes):
    """On the CPU."""
    global _torch
    if _torch is None:
        _torch = _storages(torch)
    return _torch.result(shape, nbytes // 4)


def release_memory() -> None:
    """Gives back what is kept from call to call on the host: the calling thread's workspace and the memory of results that are gone
    (up to 512 MiB a thread and 256 MiB)."""
    _kept.__dict__.clear()
    _numpy.clear()
    if _torch is not None:
        _torch.clear()


def _after_fork():
    _kept.__dict__.clear()
    _numpy.after_fork()
    if _torch is not None:
        _torch.after_fork()


os.register_at_fork(after_in_child=_after_fork)
