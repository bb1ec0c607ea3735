import { setTimeout as sleep } from "node:timers/promises";
import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { checkBucketResource, checkEntityId } from "../../domain/names/names.ts";
import { type CommandGroup, command, SCOPE_OPTIONS } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { clientOf, onStore } from "../on-store.ts";
import { serviceUrl } from "../store-option.ts";
import { jsonOf } from "../table.ts";

/** A stream that ended is asked for again after this time. */
const RECONNECT_MS = 2_000;

const eventsFollow = command({
  endsByInterrupt: true,
  options: [
    ["-t, --type <type>", "acquired, refused, charged, gave-back, lease, limits-changed …; repeated", "list"],
    ...SCOPE_OPTIONS,
  ],
  examples: ["events follow --help"],
  notes: [
    "Prints one JSON value per line as it happens, until Ctrl-C. A service reports its own events only; needs --url (ZAEL_URL):\n" +
      "zae-limiter events follow -t refused --url https://limits.internal --token-file ops.token",
  ],
  run: (context, options) => {
    const { type, entity, resource } = options;
    if (serviceUrl(context) === undefined) {
      throw new UsageError("Events come from a service, a store keeps none; give --url, or use `audit follow`.");
    }
    const query = given({
      types: type?.join(","),
      entityId: entity === undefined ? undefined : checkEntityId(entity),
      resource: resource === undefined ? undefined : checkBucketResource(resource),
    });
    const { output, interrupted: signal } = context;
    return onStore(context, async (limiter) => {
      const client = clientOf(limiter);
      let lastEventId: string | undefined;
      for (let isFirst = true; client !== undefined && !signal.aborted && !output.isClosed; isFirst = false) {
        try {
          for await (const event of client.events(query, { signal, lastEventId })) {
            lastEventId = event.id ?? lastEventId;
            if (!ABOUT_STREAM.has(event.type)) await output.write(`${jsonOf({ type: event.type, ...event.data })}\n`);
            if (signal.aborted || output.isClosed) return EXIT.done;
          }
        } catch (error) {
          if (signal.aborted) return EXIT.done;
          // A service that was there may come back. The fault of one that never was, or that refuses, is told.
          const isGone = error instanceof RateLimiterUnavailable || !(error instanceof LimiterError);
          if (isFirst || !isGone) throw error;
        }
        if (context.options.quiet !== true) output.note("The stream ended; reconnecting.\n");
        await sleep(RECONNECT_MS, undefined, { signal }).catch(() => {});
      }
      return EXIT.done;
    });
  },
});

export const EVENTS_COMMANDS: CommandGroup = { "events follow": eventsFollow };

/** Events about the stream itself. */
const ABOUT_STREAM: ReadonlySet<string> = new Set(["hello", "bye"]);
