"""One emulator of Super Mario Bros.: a step of some frames, and saving and restoring all that a step depends on.

Needs the extra `mario` and Python 3.13: gym-super-mario-bros brings the emulator and the ROM, which stays where it is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, UInt8

from pprjax.errors import UserError

BUTTONS = {"A": 0x01, "B": 0x02, "up": 0x10, "down": 0x20, "left": 0x40, "right": 0x80}
"""Bits of the joypad, as nes-py takes them."""

ACTIONS = ("right", "right + A")
"""Walk, and walk and jump."""

FRAME_SKIP = 4
"""Frames that a step holds its buttons for."""

SIDE = 84
"""Rows and columns of a grey picture."""

STACK = 3
"""Pictures in an observation, the latest last."""

TRACKERS = (
    "_time_last", "_x_position_max", "_score_last", "_coins_last", "_status_last", "_completion_rewarded", "done",
)  # fmt: skip
"""What gym-super-mario-bros remembers in Python, and its snapshots leave out."""

SNAPSHOT = 256 * 240 * 4 + 2**14
"""Bytes of a snapshot: nes-py keeps the screen in it, four bytes a pixel, and the machine's memories. Python sees a
pointer alone, so this is measured.
"""

RANDOM = slice(0x7A7, 0x7AE)
"""The game's pseudo-random register in RAM, shifted once a frame and so known from the frame's number. An emulator's
frame can end while it is being shifted: two histories of one state then differ in it, and in nothing else, for a frame.
"""

INSTALL = (
    "mario: needs Python 3.13 or newer and the emulator with its ROM, which "
    "`python3 -m pip install 'PATH/TO/pprjax[mario]'` brings (gym-super-mario-bros 9.1 or newer)"
)


@dataclasses.dataclass(frozen=True)
class Game:
    """Which game is played, and how. Tables of unequal games are never mixed."""

    stage: str = "1-1"  # world and stage
    actions: tuple[str, ...] = ACTIONS  # the buttons that each action holds, joined by " + "; "" holds none
    frame_skip: int = FRAME_SKIP  # frames that a step holds its buttons for, at least 1
    pictures: bool = False  # a state has a grey picture, and states differ where their last `STACK` pictures do
    rom: str = ""  # the SHA-256 of the ROM; "" where none is known


class Facts(NamedTuple):
    """What is seen of a state of the game."""

    x: int  # pixels from the left end of the level
    y: int  # pixels above the bottom of the screen
    dead: bool
    cleared: bool  # the flag is reached
    done: bool  # the game goes no further
    features: np.ndarray  # float32[F]
    frame: np.ndarray | None  # uint8[84, 84], grey; None unless pictures are wanted


class Emulator(Protocol):
    """A deterministic game that can be put back to where it was. Not shared between threads."""

    num_actions: int
    num_features: int
    snapshot_bytes: int  # of one snapshot, about

    def start(self) -> None:
        """Go to the start of the game."""
        ...

    def act(self, action: int) -> tuple[float, int]:
        """One step: the reward, and the coins taken."""
        ...

    def save(self) -> Any:
        """A snapshot of all that later steps depend on."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Go to where the snapshot was taken, by this emulator or another."""
        ...

    def key(self) -> bytes:
        """Equal where, and only where, all later steps are equal, and the last `STACK` pictures where there are any."""
        ...

    def facts(self) -> Facts:
        """What is seen here."""
        ...


class NESEmulator:
    """Super Mario Bros. with one life: an action holds its buttons for some frames, or until the game is over.

    The reward of a frame is clip(progress + time + death, -15, 15): pixels beyond the furthest so far, minus ticks of
    the clock, minus 25 for dying. A step earns the sum over its frames.

    Raises:
        ValueError: the extra `mario` is missing, or the game is none of those possible.
    """

    def __init__(self, game: Game = Game()):
        stage = _stage(game.stage)
        self._buttons = [_buttons(action) for action in game.actions]
        if not self._buttons or game.frame_skip < 1:
            raise UserError(
                f"actions, frame_skip: expected at least 1 of each, got {len(game.actions)} and {game.frame_skip}"
            )
        self._game: Any = _game(stage)
        self.frame_skip, self.pictures = game.frame_skip, game.pictures
        self.num_actions, self.num_features = len(self._buttons), NUM_FEATURES
        self._recent: tuple[bytes, ...] = ()  # of the last pictures, which an observation shows
        self.snapshot_bytes = SNAPSHOT
        self.start()

    def start(self) -> None:
        self._game.reset()
        if self.pictures:
            self._recent = (_digest(self.picture().tobytes()),) * STACK

    def act(self, action: int) -> tuple[float, int]:
        reward, coins = 0.0, 0
        for _ in range(self.frame_skip):
            earned, taken = self.frame(action)
            reward, coins = reward + earned, coins + taken
            if self._game.done:
                break
        if self.pictures:
            self._recent = (*self._recent[1:], _digest(self.picture().tobytes()))
        return reward, coins

    def frame(self, action: int) -> tuple[float, int]:
        """One frame of a step: the reward, and the coins taken."""
        game = self._game  # its own `step` without `info`, which costs more than all of this and is not needed
        game._frame_advance(self._buttons[action])
        game._get_reward()
        parts = game._last_reward_components
        game.done = bool(game._get_terminated())
        game._did_step(game.done)
        return max(-15.0, min(15.0, parts["progress"] + parts["time"] + parts["death"])), round(parts["coins"] / 5)

    @property
    def done(self) -> bool:
        return self._game.done

    def save(self) -> Any:
        return self._game.dump_state(), tuple(getattr(self._game, name) for name in TRACKERS), self._recent

    def restore(self, snapshot: Any) -> None:
        state, trackers, self._recent = snapshot
        self._game.load_state(state)
        for name, value in zip(TRACKERS, trackers, strict=True):
            setattr(self._game, name, value)

    def key(self) -> bytes:
        trackers = tuple(int(getattr(self._game, name)) for name in TRACKERS)
        ram = self._game.ram.tobytes()
        settled = ram[: RANDOM.start] + ram[RANDOM.stop :]
        return _digest(settled + repr(trackers).encode() + b"".join(self._recent))

    def facts(self) -> Facts:
        game = self._game
        return Facts(
            x=int(game._x_position),
            y=int(game._y_position),
            dead=bool(game._is_dying or game._is_dead),
            cleared=bool(game._flag_get),
            done=bool(game.done),
            features=features(np.array(game.ram)),
            frame=self.picture() if self.pictures else None,
        )

    def picture(self) -> UInt8[np.ndarray, "84 84"]:
        """The screen in grey, each pixel the mean of those that it covers."""
        return shrink(self._game.observation("grayscale"))

    def screen(self) -> tuple[UInt8[np.ndarray, "240 256 3"], int]:
        """A copy of the screen, and how far its left edge is from the left end of the level, in pixels."""
        return np.array(self._game.screen), int(self._game._x_position - self._game._left_x_position)

    def replay(self, actions: Iterable[int]) -> Iterable[tuple[UInt8[np.ndarray, "240 256 3"], int]]:
        """`screen` at the start and after every frame of these actions."""
        self.start()
        yield self.screen()
        for action in actions:
            for _ in range(self.frame_skip):
                if self._game.done:
                    return
                self.frame(action)
                yield self.screen()


def rom_hash() -> str:
    """The SHA-256 of the ROM.

    Raises:
        ValueError: there is none; the message says what to install.
    """
    try:
        path = importlib.import_module("gym_super_mario_bros._roms").smb1_rom_path()
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except (ImportError, AttributeError, OSError) as error:
        raise UserError(INSTALL) from error


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _game(stage: tuple[int, int]) -> Any:
    rom_hash()  # there is a ROM
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module("gym_super_mario_bros.smb_env")
            return module.SuperMarioBrosEnv(target=stage)
    except ImportError as error:
        raise UserError(INSTALL) from error


def _stage(stage: str) -> tuple[int, int]:
    world, _, number = stage.partition("-")
    if not (world in set("12345678") and number in set("1234")):
        raise UserError(f'stage: expected a world and a stage from "1-1" to "8-4", got {stage!r}')
    return int(world), int(number)


def _buttons(action: str) -> int:
    names = [name for name in action.split(" + ") if name]
    if not set(names) <= set(BUTTONS):
        raise UserError(f"actions: expected names out of {', '.join(BUTTONS)} joined by ' + ', got {action!r}")
    return sum({BUTTONS[name] for name in names})


def shrink(grey: UInt8[np.ndarray, "H W"]) -> UInt8[np.ndarray, "84 84"]:
    """A picture of 84×84 pixels, each the mean of the rectangle that it covers."""
    rows, columns = (_shares(size) for size in grey.shape)
    return np.round(rows @ grey.astype(np.float32) @ columns.T).astype(np.uint8)


_SHARES: dict[int, np.ndarray] = {}


def _shares(size: int) -> Float[np.ndarray, "84 size"]:
    """The share of each of `size` pixels in each of 84 that cover the same length."""
    if size not in _SHARES:
        edges = np.arange(SIDE + 1) * size / SIDE
        pixels = np.arange(size)
        overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
        _SHARES[size] = (np.clip(overlap, 0, None) * SIDE / size).astype(np.float32)
    return _SHARES[size]


NUM_ENEMIES, NUM_BLOCKS, NUM_COLUMNS = 2, 2, 6
WAVELENGTHS = (16, 32, 64, 128, 256, 512, 1024, 4096)  # pixels
NUM_FEATURES = 2 * len(WAVELENGTHS) + 9 + 4 * NUM_ENEMIES + 3 * NUM_BLOCKS + NUM_COLUMNS
QUESTION_BLOCKS = (0xC0, 0xC1)


def features(ram: UInt8[np.ndarray, " 2048"]) -> Float[np.ndarray, " F"]:
    """What Mario's next steps depend on, as numbers of about unit size.

    Sines and cosines of x at eight wavelengths; height, both speeds and their fractions; whether he is on the ground,
    jumping or falling; whether A was held, since a jump needs a fresh press; the two nearest enemies (there or not,
    distance across and up, speed); the two nearest ? blocks ahead (there or not, distance across and up); and how high
    the ground is in the six tile columns from his own on.

    Addresses as in the game's disassembly: 0x6D and 0x86 x, 0x400 its fraction, 0xCE y, 0x57 and 0x9F speeds, 0x433 the
    fraction of the vertical one, 0x1D on the ground (0), jumping (1) or falling (2), 0x0D buttons A and B of the last
    frame; enemies from 0x0F (active), 0x6E and 0x87 (x), 0xCF (y) and 0x58 (speed); from 0x500 on two screens of 13
    rows and 16 columns of tiles.
    """
    byte = ram.astype(int)
    x, y = byte[0x6D] * 256 + byte[0x86], byte[0xCE]
    phase = 2 * np.pi * (x + byte[0x400] / 256) / np.array(WAVELENGTHS)
    own = [
        y / 64 - 2,
        _signed(byte[0x57]) / 20,
        _signed(byte[0x9F]) / 3,
        byte[0x433] / 256,
        *(byte[0x1D] == state for state in (0, 1, 2)),
        bool(byte[0x0D] & 0x80),
        bool(byte[0x0D] & 0x40),
    ]
    found = []
    for i in range(5):
        if byte[0x0F + i]:
            across = byte[0x6E + i] * 256 + byte[0x87 + i] - x
            found.append((1.0, across / 64, (byte[0xCF + i] - y) / 32, _signed(byte[0x58 + i]) / 10))
    enemies = _nearest(found, NUM_ENEMIES, 4)

    column = x // 16 + np.arange(-1, 10)
    tiles = byte[0x500 + (column // 16 % 2) * 208 + column % 16 + 16 * np.arange(13)[:, None]]  # [13, 11]
    rows, ahead = np.nonzero(np.isin(tiles, QUESTION_BLOCKS))
    across = (column[ahead] * 16 - x) / 64
    blocks = _nearest([(1.0, dx, (32 + 16 * r - y) / 32) for r, dx in zip(rows, across, strict=True)], NUM_BLOCKS, 3)
    solid = tiles[::-1, 1 : 1 + NUM_COLUMNS] != 0
    ground = np.cumprod(solid, axis=0).sum(0) / 4  # tiles without a gap, from the bottom up
    return np.concatenate([np.sin(phase), np.cos(phase), own, enemies, blocks, ground]).astype(np.float32)


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _nearest(found: list[tuple], num: int, width: int) -> list[float]:
    """The `num` rows of the smallest distance across, one after another; zeros where there are fewer."""
    rows = sorted((row for row in found if abs(row[1]) < 4), key=lambda row: (abs(row[1]), row))[:num]
    flat = [value for row in rows for value in row]
    return flat + [0.0] * (num * width - len(flat))
