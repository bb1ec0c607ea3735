import { writeSync } from "node:fs";
import { RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { refusedOnce, T0 } from "./refusing-kit.ts";

// A process that is refused again and again, on a clock that it moves itself: FILE COUNT. After each COUNT refusals it lets the
// time pass after which they are written, and says how many that makes.

const [file = "", count = ""] = process.argv.slice(2);
const clock = new SimulatedClock(T0);
const limiter = await RateLimiter.open({ store: `sqlite:${file}`, clock });
for (let refused = 0; ; ) {
  for (let i = 0; i < Number(count); i++, refused++) await refusedOnce(limiter);
  await clock.advance(10_000);
  // A page is read when no write is under way.
  await limiter.refusals({ window: "daily" });
  writeSync(1, `${refused}\n`);
}
