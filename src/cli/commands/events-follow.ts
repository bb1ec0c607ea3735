import { setTimeout as sleep } from "node:timers/promises";
import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { checkBucketResource, checkEntityId } from "../../domain/names/names.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { clientOf } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { jsonOf } from "../printable.ts";
import { serviceUrl } from "../service-option.ts";

interface EventsFollowOptions extends GlobalOptions {
  readonly type?: readonly string[];
  readonly entity?: string;
  readonly resource?: string;
}

/** How soon a stream that ended is asked for again. */
const AGAIN_MS = 2_000;

export const eventsFollow: CommandFile<EventsFollowOptions> = {
  endsByInterrupt: true,
  configure: (command) => {
    command
      .option("-t, --type <type>", "acquired, refused, charged, gave-back, lease, limits-changed …; repeated", repeated)
      .option("-e, --entity <id>", "only this entity")
      .option("-r, --resource <resource>", "only this resource")
      .addHelpText("after", examples("zae-limiter events follow --help"))
      .addHelpText(
        "after",
        "\nPrints one JSON value per line as it happens, until Ctrl-C. A service reports its own events only; needs --url (ZAEL_URL):\n" +
          "zae-limiter events follow -t refused --url https://limits.internal --token-file ops.token\n",
      );
  },
  run: (context, options) => {
    const { type, entity, resource } = options;
    if (serviceUrl(options, context) === undefined) {
      throw new UsageError("Events come from a service, a store keeps none; give --url, or use `audit follow`.");
    }
    const query = {
      ...(type === undefined ? {} : { types: type.join(",") }),
      ...(entity === undefined ? {} : { entityId: checkEntityId(entity) }),
      ...(resource === undefined ? {} : { resource: checkBucketResource(resource) }),
    };
    const { output, interrupted: signal } = context;
    return onStore(context, options, async (limiter) => {
      const client = clientOf(limiter);
      let lastEventId: string | undefined;
      for (let isFirst = true; client !== undefined && !signal.aborted && !output.isClosed; isFirst = false) {
        try {
          for await (const event of client.events(query, { signal, lastEventId })) {
            lastEventId = event.id ?? lastEventId;
            if (!TALK.has(event.type)) await output.write(`${jsonOf({ type: event.type, ...event.data })}\n`);
            if (signal.aborted || output.isClosed) return EXIT.done;
          }
        } catch (error) {
          if (signal.aborted) return EXIT.done;
          // A service that was there may come back; one that never was, or that refuses, is told.
          const isGone = error instanceof RateLimiterUnavailable || !(error instanceof LimiterError);
          if (isFirst || !isGone) throw error;
        }
        if (options.quiet !== true) output.note("The stream ended; reconnecting.\n");
        await sleep(AGAIN_MS, undefined, { signal }).catch(() => {});
      }
      return EXIT.done;
    });
  },
};

/** What is said of the stream itself. */
const TALK: ReadonlySet<string> = new Set(["hello", "bye"]);
