import { randomBytes } from "node:crypto";
import type { Random } from "../../ports/system.ts";

export const systemRandom: Random = {
  id: () => {
    for (;;) {
      const id = randomBytes(8).toString("base64url");
      // A leading dash would read as an option on a command line.
      if (!id.startsWith("-")) return id;
    }
  },
};

/** A number in [0, 1), for jitter. */
export const jitter = (): number => Math.random();
