import { setTimeout as sleep } from "node:timers/promises";
import { type Command, Option } from "commander";
import type { ArchivedEvent, VerifiedDay } from "../../entry/aggregator.ts";
import type { AuditEvent } from "../../entry/index.ts";
import {
  type CommandContext,
  type CommandFile,
  type CommandGroup,
  examples,
  type GlobalOptions,
  type ListOptions,
  listOptions,
} from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { namespaceIdFor } from "../namespace-option.ts";
import { onStore } from "../on-store.ts";
import { printList } from "../print.ts";
import { jsonOf } from "../printable.ts";
import { timeText } from "../show-entity.ts";
import { requiredTable } from "../store-option.ts";
import type { Column } from "../table.ts";
import { countOf, instantMs } from "../values.ts";

interface AuditListOptions extends AuditOptions {
  readonly archive?: string;
  readonly s3Endpoint?: string;
}

/** Audit events, newest first: of the store, or with `--archive` those that outlived it there. */
const auditList: CommandFile<AuditListOptions> = {
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

/** How often the store is asked. */
const LOOK_EVERY_MS = 1_000;
/** Events of one moment may become visible one after the other, on a table a little late. */
const OVERLAP_MS = 10_000;

const auditFollow: CommandFile<AuditOptions> = {
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

interface AuditVerifyOptions extends GlobalOptions {
  readonly archive?: string;
  readonly s3Endpoint?: string;
}

/** Compares an archive, day by day, with what the table says was put there. */
const auditVerify: CommandFile<AuditVerifyOptions> = {
  configure: (command) => {
    command
      .option("--archive <location>", "s3://BUCKET[/PREFIX]")
      .option("--s3-endpoint <url>", "URL of S3")
      .addHelpText("after", examples("zae-limiter audit verify --store dynamodb:limits --archive s3://my-archive"))
      .addHelpText("after", "\nExit codes: 0 nothing is missing, 1 something is missing or damaged.\n");
  },
  run: async (context, options) => {
    const { archive, s3Endpoint } = options;
    if (archive === undefined) throw new UsageError("No archive is named; give --archive s3://BUCKET[/PREFIX].");
    const table = requiredTable(options, context, "audit verify");
    const { verifyArchive } = await import("../../entry/aggregator.ts");
    const days: VerifiedDay[] = [];
    const { output } = context;
    for await (const day of verifyArchive({ ...table, archive, ...(s3Endpoint === undefined ? {} : { s3Endpoint }) })) {
      if (output.isClosed) return EXIT.done;
      if (options.ndjson === true) await output.write(`${jsonOf(day)}\n`);
      else if (options.json !== true) await output.write(`${sentence(day)}\n`);
      days.push(day);
    }
    const ok = days.every((day) => day.ok);
    if (options.json === true && options.ndjson !== true) await output.write(`${jsonOf({ ok, items: days })}\n`);
    return ok ? EXIT.done : EXIT.refused;
  },
};

function sentence({ day, ok, recorded, found, events, missing, damaged }: VerifiedDay): string {
  const what = `${day}  ${events} events`;
  if (ok) return `${what}, nothing is missing`;
  const lost = [...missing.map((key) => `${key} is gone`), ...damaged.map((key) => `${key} is damaged`)];
  return `${what}, ${found} of ${recorded} are there: ${lost.join("; ")}`;
}

/** Which events are asked for. */
interface AuditOptions extends ListOptions {
  readonly entity?: string;
  readonly entityId?: string;
  readonly resource?: string;
  readonly system?: boolean;
  /** Of `--from` and `--start`. */
  readonly start?: string;
}

function auditOptions(command: Command): Command {
  return command
    .option("-e, --entity <id>", "only this entity")
    .addOption(new Option("--entity-id <id>").hideHelp())
    .option("-r, --resource <resource>", "only the defaults of this resource")
    .option("--system", "only the system defaults")
    .option("--from, --start <instant>", "start: ISO 8601, or a duration ago such as 7d");
}

/** The id under which the events are kept, and since when they count. */
function auditFilter(
  options: AuditOptions,
  nowMs: number,
): { readonly filter: { readonly entityId?: string }; readonly fromMs: number } {
  const { entity, entityId = entity, resource, system, start } = options;
  const named = [
    entityId,
    resource === undefined ? undefined : `$RESOURCE:${resource}`,
    system === true ? "$SYSTEM" : undefined,
  ];
  const [id, ...others] = named.filter((each) => each !== undefined);
  if (others.length > 0) throw new UsageError("-e, -r and --system exclude each other; give one.");
  return {
    filter: id === undefined ? {} : { entityId: id },
    fromMs: start === undefined ? Number.NEGATIVE_INFINITY : instantMs(start, "--from", nowMs),
  };
}

const AUDIT_COLUMNS: readonly Column<AuditEvent>[] = [
  { title: "WHEN", text: ({ atMs }) => timeText(atMs) },
  { title: "WHAT", text: ({ action }) => action.replaceAll("_", " ") },
  { title: "ON", text: ({ entityId, resource }) => onText(entityId, resource) },
  { title: "BY", text: ({ principal }) => principal ?? "", flexible: true },
];

function onText(entityId: string, resource: string | undefined): string {
  if (entityId === "$SYSTEM") return "system";
  if (entityId.startsWith("$")) return entityId.slice(entityId.indexOf(":") + 1);
  return resource === undefined ? entityId : `${entityId} on ${resource}`;
}

export const AUDIT_COMMANDS: CommandGroup = {
  "audit list": auditList,
  "audit follow": auditFollow,
  "audit verify": auditVerify,
};
