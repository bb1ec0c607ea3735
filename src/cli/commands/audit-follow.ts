import { setTimeout as sleep } from "node:timers/promises";
import type { AuditEvent } from "../../entry/index.ts";
import { type AuditOptions, auditFilter, auditOptions } from "../audit-options.ts";
import { type CommandFile, examples } from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { jsonOf } from "../printable.ts";

/** How often the store is asked. */
const LOOK_EVERY_MS = 1_000;
/** Events of one moment may become visible one after the other, on a table a little late. */
const OVERLAP_MS = 10_000;

export const auditFollow: CommandFile<AuditOptions> = {
  endsByInterrupt: true,
  configure: (command) => {
    auditOptions(command)
      .addHelpText("after", examples("zae-limiter audit follow", "zae-limiter audit follow --from 1h"))
      .addHelpText("after", "\nPrints one JSON value per line, oldest first, from now on (or --from), until Ctrl-C.\n");
  },
  run: (context, options) => {
    const nowMs = Date.now();
    const { filter, fromMs } = auditFilter(options, nowMs);
    const { output, interrupted } = context;
    return onStore(context, options, async (limiter) => {
      let sinceMs = options.start === undefined ? nowMs : fromMs;
      const shown = new Map<string, number>();
      while (!interrupted.aborted && !output.isClosed) {
        const events = await since(limiter, filter, sinceMs - (shown.size === 0 ? 0 : OVERLAP_MS));
        const fresh = events.filter(
          ({ eventId, atMs }) => !shown.has(eventId) && atMs >= (options.start === undefined ? nowMs : fromMs),
        );
        for (const event of fresh) {
          await output.write(`${jsonOf(event)}\n`);
          shown.set(event.eventId, event.atMs);
          sinceMs = Math.max(sinceMs, event.atMs);
        }
        for (const [id, atMs] of shown) if (atMs < sinceMs - 2 * OVERLAP_MS) shown.delete(id);
        await sleep(LOOK_EVERY_MS, undefined, { signal: interrupted }).catch(() => {});
      }
      return EXIT.done;
    });
  },
};

/** Oldest first. */
async function since(
  limiter: CommandLimiter,
  filter: { readonly entityId?: string },
  sinceMs: number,
): Promise<readonly AuditEvent[]> {
  const found: AuditEvent[] = [];
  for await (const event of limiter.auditEvents(filter)) {
    if (event.atMs < sinceMs) break;
    found.push(event);
  }
  return found.reverse();
}
