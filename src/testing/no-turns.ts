import type { Turns } from "../ports/system.ts";

/** For a world in which nothing else waits for its turn: what is asked there goes on at once, and replays exactly. */
export const NO_TURNS: Turns = { next: async () => {} };
