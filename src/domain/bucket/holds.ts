// At most N at once: what is taken is held until it is given back or its time is up. Holds are kept by when they end, not by who has
// them: a slice is all slots that are held until the same instant, so the state does not grow with N, and nobody has to look after
// holders that died. Slots are counted in thousandths, like tokens.

/** Slots that are held until the same instant. */
export interface Slice {
  /** Its number among the open slices of the limit: where stores keep it. */
  readonly place: number;
  readonly endMs: number;
  readonly heldMilli: number;
}

/** Names the slice of a hold by place and end: a place is used again once its slice has ended. */
export type SliceName = Pick<Slice, "place" | "endMs">;

export const NO_SLICES: readonly Slice[] = Object.freeze([]);

/** The most slices that are open at once. One `holdMs` needs five; more are open only after it was changed several times within one hold. */
export const SLICES_MAX = 8;

/** The end of a hold of `ownMs` that begins at a reading: never before its time, and less than a quarter of the limit's `holdMs` later. */
export function endFor(atMs: number, ownMs: number, holdMs: number): number {
  const sliceMs = Math.ceil(holdMs / 4);
  return Math.ceil((atMs + Math.min(ownMs, holdMs)) / sliceMs) * sliceMs;
}

export function heldMilli(slices: readonly Slice[]): number {
  let sumMilli = 0;
  for (let i = 0; i < slices.length; i++) sumMilli += (slices[i] as Slice).heldMilli;
  return sumMilli;
}

/**
 * The slices with a hold more that is to end at `endMs`. Where no place is left for that end, it joins the next slice that ends later;
 * where none does, the last one is moved up. So it may end later, never earlier. Tickets of a slice that was moved find it no more: their
 * holds end with it.
 */
export function taken(slices: readonly Slice[], milli: number, endMs: number): readonly Slice[] {
  const at = indexEndingBy(slices, endMs);
  const found = at < 0 ? undefined : slices[at];
  if (found !== undefined && (found.endMs === endMs || slices.length >= SLICES_MAX)) {
    return withHeld(slices, at, found.heldMilli + milli);
  }
  if (slices.length < SLICES_MAX) return [...slices, { place: freePlace(slices), endMs, heldMilli: milli }];
  const last = slices.reduce((a, b) => (b.endMs > a.endMs ? b : a));
  return replaced(slices, last, { place: last.place, endMs, heldMilli: last.heldMilli + milli });
}

/** The slice that a hold went into that was to end at `endMs`: the first that ends then or later. */
export function sliceEndingBy(slices: readonly Slice[], endMs: number): Slice | undefined {
  const at = indexEndingBy(slices, endMs);
  return at < 0 ? undefined : slices[at];
}

function indexEndingBy(slices: readonly Slice[], endMs: number): number {
  let first = -1;
  let firstMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < slices.length; i++) {
    const ownMs = (slices[i] as Slice).endMs;
    if (ownMs < endMs || ownMs >= firstMs) continue;
    first = i;
    firstMs = ownMs;
  }
  return first;
}

/**
 * The slices without a hold that was given back; undefined where its slice has ended or was moved: then nothing is free by it that is not
 * free already, and what another holds must not be.
 */
export function givenBack(
  slices: readonly Slice[],
  { place, endMs }: SliceName,
  milli: number,
): readonly Slice[] | undefined {
  for (let i = 0; i < slices.length; i++) {
    const slice = slices[i] as Slice;
    if (slice.place !== place || slice.endMs !== endMs || slice.heldMilli < milli) continue;
    return withHeld(slices, i, slice.heldMilli - milli);
  }
  return undefined;
}

/** A hold that was renewed: the slices then, and the one that it is in. */
interface Moved {
  readonly slices: readonly Slice[];
  readonly into: SliceName;
}

/** A hold that is to end at `endMs` from now on, never earlier than before. Undefined where it has ended. */
export function moved(slices: readonly Slice[], from: SliceName, milli: number, endMs: number): Moved | undefined {
  const without = givenBack(slices, from, milli);
  if (without === undefined) return undefined;
  if (endMs <= from.endMs) return { slices, into: from };
  const after = taken(without, milli, endMs);
  const into = sliceEndingBy(after, endMs);
  // A hold without a place left stays: its own slice would be moved up, with all that others hold in it.
  if (into === undefined || into.place === from.place) return { slices, into: from };
  return { slices: after, into: { place: into.place, endMs: into.endMs } };
}

/** The slices as before a hold that ends as late as any: so much of what ends last is gone. */
export function withoutLast(slices: readonly Slice[], milli: number): readonly Slice[] {
  let left = milli;
  let before = slices;
  for (const slice of slices.toSorted((a, b) => b.endMs - a.endMs)) {
    const some = Math.min(left, slice.heldMilli);
    if (some > 0) before = replaced(before, slice, { ...slice, heldMilli: slice.heldMilli - some });
    left -= some;
  }
  return before;
}

/** The end of the next slice that something is held in; undefined where nothing is. */
export function freesAtMs(slices: readonly Slice[]): number | undefined {
  const endMs = nextEndMs(slices.filter((slice) => slice.heldMilli > 0));
  return endMs === Number.POSITIVE_INFINITY ? undefined : endMs;
}

/** The slices that are open after an instant; the same list where none has ended. */
export function ended(slices: readonly Slice[], atMs: number): readonly Slice[] {
  for (let i = 0; i < slices.length; i++) {
    if ((slices[i] as Slice).endMs > atMs) continue;
    const open = slices.filter((slice) => slice.endMs > atMs);
    return open.length === 0 ? NO_SLICES : open;
  }
  return slices;
}

/** The end of the slice that ends first; `Infinity` where none is open. */
export function nextEndMs(slices: readonly Slice[]): number {
  let nextMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < slices.length; i++) nextMs = Math.min(nextMs, (slices[i] as Slice).endMs);
  return nextMs;
}

/**
 * The slices by a clock that was ahead, now that it is known to be `atMs`: none can end later than a hold that begins now. Those that do
 * become one, at that end.
 */
export function pulledIn(slices: readonly Slice[], atMs: number, holdMs: number): readonly Slice[] {
  const lastMs = endFor(atMs, holdMs, holdMs);
  const late = slices.filter(({ endMs }) => endMs > lastMs);
  if (late.length === 0) return slices;
  const open = slices.filter(({ endMs }) => endMs <= lastMs);
  return taken(open, heldMilli(late), lastMs);
}

// Every take and every give-back calls this: no closures, and nothing is made but the list and the slice.
function withHeld(slices: readonly Slice[], at: number, heldMilli: number): readonly Slice[] {
  const { place, endMs } = slices[at] as Slice;
  const after = slices.slice();
  after[at] = { place, endMs, heldMilli };
  return after;
}

function replaced(slices: readonly Slice[], before: Slice, after: Slice): readonly Slice[] {
  return slices.map((slice) => (slice === before ? after : slice));
}

function freePlace(slices: readonly Slice[]): number {
  let place = 0;
  while (slices.some((slice) => slice.place === place)) place++;
  return place;
}
