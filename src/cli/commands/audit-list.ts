import type { ArchivedEvent } from "../../entry/aggregator.ts";
import type { AuditEvent } from "../../entry/index.ts";
import { AUDIT_COLUMNS, type AuditOptions, auditFilter, auditOptions } from "../audit-options.ts";
import { type CommandContext, type CommandFile, examples, listOptions } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { namespaceIdFor } from "../namespace-option.ts";
import { onStore } from "../on-store.ts";
import { printList } from "../print.ts";
import { countOf } from "../values.ts";

interface AuditListOptions extends AuditOptions {
  readonly archive?: string;
  readonly s3Endpoint?: string;
}

/** Audit events, newest first: of the store, or with `--archive` those that outlived it there. */
export const auditList: CommandFile<AuditListOptions> = {
  configure: (command) => {
    auditOptions(listOptions(command))
      .option("--archive <location>", "s3://BUCKET[/PREFIX]: list archived events")
      .option("--s3-endpoint <url>", "URL of S3")
      .addHelpText(
        "after",
        examples(
          "zae-limiter audit list --from 24h",
          "zae-limiter audit list -e key-1 --json",
          "zae-limiter audit list --store dynamodb:limits --archive s3://my-archive",
        ),
      );
  },
  run: (context, options) => {
    const { archive, max } = options;
    if (max !== undefined) countOf(max, "--max");
    return archive === undefined ? listStored(context, options) : listArchived(context, { ...options, archive });
  },
};

/** What the store still has. */
function listStored(context: CommandContext, options: AuditListOptions): Promise<number> {
  const { filter, fromMs } = auditFilter(options, Date.now());
  return onStore(context, options, (limiter) =>
    printList<AuditEvent>(context, options, {
      page: async (request) => {
        const { events, cursor } = await limiter.auditEvents({ ...filter, ...request });
        const items = events.filter(({ atMs }) => atMs >= fromMs);
        // Newest first: once one is too old, so is all that follows.
        return items.length < events.length ? { items } : { items, cursor };
      },
      columns: AUDIT_COLUMNS,
      empty: NONE,
    }),
  );
}

const NONE = "No changes in that time.";

type ArchiveListOptions = AuditListOptions & { readonly archive: string };

/** What outlived the store, read once from the cursor given on: a page begins where the one before it ended. */
async function listArchived(context: CommandContext, options: ArchiveListOptions): Promise<number> {
  const events = await eventsFor(options, context, positionOfCursor(options.cursor));
  try {
    // One ahead, to know whether there are more.
    let next = await events.next();
    return await printList<ArchivedEvent>(context, options, {
      page: async ({ limit }) => {
        const items: ArchivedEvent[] = [];
        for (; next.done !== true && items.length < limit; next = await events.next()) items.push(next.value);
        const last = items.at(-1);
        return next.done === true || last === undefined ? { items } : { items, cursor: cursorOf(last) };
      },
      columns: AUDIT_COLUMNS,
      empty: NONE,
    });
  } finally {
    await events.return();
  }
}

async function eventsFor(
  options: ArchiveListOptions,
  context: CommandContext,
  from: EventPosition | undefined,
): Promise<AsyncGenerator<ArchivedEvent, void, undefined>> {
  const { archive, s3Endpoint, region } = options;
  const { filter, fromMs } = auditFilter(options, Date.now());
  const namespaceId = await namespaceIdFor(options, context);
  const { readArchive } = await import("../../entry/aggregator.ts");
  const events = readArchive({
    archive,
    ...(s3Endpoint === undefined ? {} : { s3Endpoint }),
    ...(region === undefined ? {} : { region }),
    ...(namespaceId === undefined ? {} : { namespaceId }),
    // An event is in the objects of its day; those of later days were shown.
    ...(from === undefined ? {} : { toMs: (Math.floor(from.atMs / DAY_MS) + 1) * DAY_MS }),
  });
  return (async function* () {
    let isShown = from !== undefined;
    for await (const event of events) {
      const isOld = event.atMs < fromMs;
      const isWanted = filter.entityId === undefined || event.entityId === filter.entityId;
      if (!isShown && !isOld && isWanted) yield event;
      if (isShown) isShown = event.eventId !== from?.eventId;
    }
  })();
}

const DAY_MS = 86_400_000;

interface EventPosition {
  readonly atMs: number;
  readonly eventId: string;
}

function cursorOf({ atMs, eventId }: ArchivedEvent): string {
  return Buffer.from(JSON.stringify([atMs, eventId])).toString("base64url");
}

function positionOfCursor(cursor: string | undefined): EventPosition | undefined {
  if (cursor === undefined) return undefined;
  try {
    const [atMs, eventId] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as [unknown, unknown];
    if (typeof atMs === "number" && typeof eventId === "string") return { atMs, eventId };
  } catch {
    // Told below.
  }
  throw new UsageError(`--cursor is "${cursor}"; give the cursor that the previous list ended with.`);
}
