import { setTimeout as sleep } from "node:timers/promises";
import { AuditEnds } from "../../domain/config/audit.ts";
import type { Namespace } from "../../domain/config/namespace.ts";
import { NotFoundError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { pagesOf } from "../../domain/names/paging.ts";
import type { ArchivedEvent, VerifiedDay } from "../../entry/aggregator.ts";
import type { AuditEvent } from "../../entry/index.ts";
import {
  type CommandContext,
  type CommandGroup,
  command,
  ENTITY_ID,
  LIST_OPTIONS,
  type OptionRow,
  type OptionsOf,
} from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { timeText } from "../named-records.ts";
import { type CommandLimiter, onStore } from "../on-store.ts";
import { printList } from "../print.ts";
import { namedTable, requiredTable } from "../store-option.ts";
import { type Column, jsonOf } from "../table.ts";
import { endText } from "../until.ts";
import { countOf, instantMs } from "../values.ts";

/**
 * The id of the namespace whose archived events are wanted. The table knows the names; an archive outlives its table, so without
 * one the option is taken for an id, and without the option all are wanted.
 */
async function namespaceIdFor(context: CommandContext): Promise<string | undefined> {
  const named = context.options.namespace ?? (context.env.ZAEL_NAMESPACE || undefined);
  const table = namedTable(context);
  if (table === undefined) return named;
  const { openDynamo } = await import("../../entry/dynamodb.ts");
  const store = await openDynamo(table);
  try {
    const name = named ?? "default";
    const active = await store.namespaces.get(name);
    if (active !== undefined) return active.id;
    // The events of a namespace outlive it too.
    const others: string[] = [];
    for await (const { items } of pagesOf((from) => store.namespaces.listOrphans({ limit: 100, ...from }))) {
      const found = items.find((namespace) => namespace.id === name || namespace.name === name);
      if (found !== undefined) return found.id;
      others.push(...items.map(({ id }) => id));
    }
    const known = (await store.namespaces.list({ limit: 10 })).items.map((namespace: Namespace) => namespace.name);
    throw new NotFoundError(
      "namespace_not_found",
      `There is no namespace "${name}"; known: ${[...known, ...others.slice(0, 10)].join(", ") || "none"}.`,
    );
  } finally {
    await store.close();
  }
}

const AUDIT_OPTIONS = [
  ["-e, --entity <id>", "only this entity"],
  ENTITY_ID,
  ["-r, --resource <resource>", "only the defaults of this resource"],
  ["--system", "only the system defaults"],
  ["--from, --start <instant>", "start: ISO 8601, or a duration ago such as 7d"],
] as const satisfies readonly OptionRow[];

const S3_ENDPOINT = ["--s3-endpoint <url>", "URL of S3"] as const;

type AuditOptions = OptionsOf<typeof AUDIT_OPTIONS>;

/** Audit events, newest first: of the store, or with `--archive` those that outlived it there. */
const auditList = command({
  options: [
    ...LIST_OPTIONS,
    ...AUDIT_OPTIONS,
    ["--archive <location>", "s3://BUCKET[/PREFIX]: list archived events"],
    S3_ENDPOINT,
  ],
  examples: [
    "audit list --from 24h",
    "audit list -e key-1 --json",
    "audit list --store dynamodb:limits --archive s3://my-archive",
  ],
  run: (context, options) => {
    const { archive } = options;
    const { max } = context.options;
    if (max !== undefined) countOf(max, "--max");
    return archive === undefined ? listStored(context, options) : listArchived(context, { ...options, archive });
  },
});

/** Lists the events that the store still has. */
function listStored(context: CommandContext, options: AuditOptions): Promise<number> {
  const { filter, fromMs } = auditFilter(options, Date.now());
  return onStore(context, (limiter) =>
    printList<AuditEvent>(context, {
      page: async (request) => {
        const { events, cursor } = await limiter.auditEvents({ ...filter, ...request });
        const items = events.filter(({ atMs }) => atMs >= fromMs);
        // Newest first: once one is too old, so is all that follows.
        return items.length < events.length ? { items } : { items, cursor };
      },
      columns: auditColumns(),
      empty: NONE,
    }),
  );
}

const NONE = "No changes in that time.";

type ArchiveListOptions = AuditOptions & { readonly archive: string; readonly s3Endpoint?: string };

/** Lists events that outlived the store. They are read once from the cursor on: a page begins where the one before it ended. */
async function listArchived(context: CommandContext, options: ArchiveListOptions): Promise<number> {
  const events = await eventsFor(context, options, positionOfCursor(context.options.cursor));
  try {
    // One ahead, to know whether there are more.
    let next = await events.next();
    return await printList<ArchivedEvent>(context, {
      page: async ({ limit }) => {
        const items: ArchivedEvent[] = [];
        for (; next.done !== true && items.length < limit; next = await events.next()) items.push(next.value);
        const last = items.at(-1);
        return next.done === true || last === undefined ? { items } : { items, cursor: cursorOf(last) };
      },
      columns: auditColumns(),
      empty: NONE,
    });
  } finally {
    await events.return();
  }
}

async function eventsFor(
  context: CommandContext,
  options: ArchiveListOptions,
  from: EventPosition | undefined,
): Promise<AsyncGenerator<ArchivedEvent, void, undefined>> {
  const { archive, s3Endpoint } = options;
  const { region } = context.options;
  const { filter, fromMs } = auditFilter(options, Date.now());
  const namespaceId = await namespaceIdFor(context);
  const { readArchive } = await import("../../entry/aggregator.ts");
  // An event is in the objects of its day; those of later days were shown.
  const toMs = from === undefined ? undefined : (Math.floor(from.atMs / DAY_MS) + 1) * DAY_MS;
  const events = readArchive(given({ archive, s3Endpoint, region, namespaceId, toMs }));
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

const LOOK_EVERY_MS = 1_000;
/** Events of one moment may become visible one after the other, on a table a little late. */
const OVERLAP_MS = 10_000;

const auditFollow = command({
  endsByInterrupt: true,
  options: AUDIT_OPTIONS,
  examples: ["audit follow", "audit follow --from 1h"],
  notes: ["Prints one JSON value per line, oldest first, from now on (or --from), until Ctrl-C."],
  run: (context, options) => {
    const nowMs = Date.now();
    const { filter, fromMs } = auditFilter(options, nowMs);
    const { output, interrupted } = context;
    return onStore(context, async (limiter) => {
      const beganMs = options.start === undefined ? nowMs : fromMs;
      let sinceMs = beganMs;
      const shown = new Map<string, number>();
      while (!interrupted.aborted && !output.isClosed) {
        const events = await since(limiter, filter, sinceMs - (shown.size === 0 ? 0 : OVERLAP_MS));
        const fresh = events.filter(({ eventId, atMs }) => !shown.has(eventId) && atMs >= beganMs);
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
});

/** The events since a moment, oldest first. */
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

/** Compares an archive, day by day, with the receipts in the table. */
const auditVerify = command({
  options: [["--archive <location>", "s3://BUCKET[/PREFIX]"], S3_ENDPOINT],
  examples: ["audit verify --store dynamodb:limits --archive s3://my-archive"],
  notes: ["Exit codes: 0 nothing is missing, 1 something is missing or damaged."],
  run: async (context, options) => {
    const { archive, s3Endpoint } = options;
    if (archive === undefined) throw new UsageError("No archive is named; give --archive s3://BUCKET[/PREFIX].");
    const table = requiredTable(context, "audit verify");
    const { verifyArchive } = await import("../../entry/aggregator.ts");
    const days: VerifiedDay[] = [];
    const { output } = context;
    const { json, ndjson } = context.options;
    for await (const day of verifyArchive(given({ ...table, archive, s3Endpoint }))) {
      if (output.isClosed) return EXIT.done;
      if (ndjson === true) await output.write(`${jsonOf(day)}\n`);
      else if (json !== true) await output.write(`${sentence(day)}\n`);
      days.push(day);
    }
    const ok = days.every((day) => day.ok);
    if (json === true && ndjson !== true) await output.write(`${jsonOf({ ok, items: days })}\n`);
    return ok ? EXIT.done : EXIT.refused;
  },
});

function sentence({ day, ok, recorded, found, events, missing, damaged }: VerifiedDay): string {
  const what = `${day}  ${events} events`;
  if (ok) return `${what}, nothing is missing`;
  const lost = [...missing.map((key) => `${key} is gone`), ...damaged.map((key) => `${key} is damaged`)];
  return `${what}, ${found} of ${recorded} are there: ${lost.join("; ")}`;
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

/** The columns of one list, whose events are shown from the newest on, each once. */
function auditColumns(): readonly Column<AuditEvent>[] {
  const nowMs = Date.now();
  const ends = new AuditEnds(nowMs, (atMs) => endText(atMs, nowMs));
  return [
    { title: "WHEN", text: ({ atMs }) => timeText(atMs) },
    { title: "WHAT", text: (event) => [event.action.replaceAll("_", " "), ends.of(event)].filter(Boolean).join(", ") },
    { title: "ON", text: ({ entityId, resource }) => onText(entityId, resource) },
    { title: "BY", text: ({ principal }) => principal ?? "", flexible: true },
  ];
}

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
