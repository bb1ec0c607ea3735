import type { ArchivedEvent } from "../../entry/aggregator.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { namespaceIdFor } from "../namespace-option.ts";

interface AuditListOptions extends GlobalOptions {
  readonly archive?: string;
  readonly s3Endpoint?: string;
  readonly entity?: string;
  readonly max?: string;
  readonly cursor?: string;
}

/** Shows the audit events of an archive, of one namespace, newest first, each once. */
export const auditList: CommandFile<AuditListOptions> = {
  configure: (command) => {
    command
      .option("--archive <location>", "s3://BUCKET[/PREFIX]")
      .option("--s3-endpoint <url>", "address of S3")
      .option("-e, --entity <id>", "of one entity")
      .option("--max <n>", "at most so many")
      .option("--cursor <cursor>", "go on where a list of --max ended")
      .addHelpText(
        "after",
        examples(
          "zae-limiter audit list --store dynamodb:limits --archive s3://my-archive",
          "zae-limiter audit list --archive s3://my-archive --ndjson",
        ),
      );
  },
  run: async (context, options) => {
    const { archive, max } = options;
    if (archive === undefined) throw new UsageError("Which archive? Give --archive s3://BUCKET[/PREFIX].");
    if (max !== undefined && !/^[1-9]\d*$/.test(max)) throw new UsageError(`--max is "${max}"; give a whole number.`);
    const place = cursorPlace(options.cursor);
    const events = await eventsFor({ ...options, archive }, context, place);
    return print(events, context, options);
  },
};

async function eventsFor(
  options: AuditListOptions & { readonly archive: string },
  context: CommandContext,
  place: Place | undefined,
): Promise<AsyncIterable<ArchivedEvent>> {
  const { archive, s3Endpoint, region, entity } = options;
  const namespaceId = await namespaceIdFor(options, context);
  const { readArchive } = await import("../../entry/aggregator.ts");
  const events = readArchive({
    archive,
    ...(s3Endpoint === undefined ? {} : { s3Endpoint }),
    ...(region === undefined ? {} : { region }),
    ...(namespaceId === undefined ? {} : { namespaceId }),
    // An event is in the objects of its day; those of later days were shown.
    ...(place === undefined ? {} : { toMs: (Math.floor(place.atMs / DAY_MS) + 1) * DAY_MS }),
  });
  return (async function* () {
    let isShown = place !== undefined;
    for await (const event of events) {
      if (!isShown && (entity === undefined || event.entityId === entity)) yield event;
      if (isShown) isShown = event.eventId !== place?.eventId;
    }
  })();
}

const DAY_MS = 86_400_000;

async function print(
  events: AsyncIterable<ArchivedEvent>,
  { output }: CommandContext,
  options: AuditListOptions,
): Promise<number> {
  const most = options.max === undefined ? Number.POSITIVE_INFINITY : Number(options.max);
  const isDocument = options.json === true && options.ndjson !== true;
  const show = (event: ArchivedEvent) => (isDocument || options.ndjson === true ? JSON.stringify(event) : line(event));
  let count = 0;
  let last: ArchivedEvent | undefined;
  let isMore = false;
  if (isDocument) await output.write('{"items":[');
  for await (const event of events) {
    if (output.isClosed) return EXIT.done;
    isMore = count === most;
    if (isMore) break;
    await output.write(isDocument ? `${count === 0 ? "\n" : ",\n"}${show(event)}` : `${show(event)}\n`);
    last = event;
    count += 1;
  }
  const cursor = isMore && last !== undefined ? cursorOf(last) : undefined;
  if (isDocument)
    await output.write(`${count === 0 ? "" : "\n"}]${cursor === undefined ? "" : `,"cursor":"${cursor}"`}}\n`);
  else if (cursor !== undefined && options.quiet !== true)
    output.note(`There are more; go on with --cursor ${cursor}\n`);
  return EXIT.done;
}

function line({ atMs, action, entityId, resource, principal }: ArchivedEvent): string {
  const at = `${new Date(atMs).toISOString().slice(0, 19)}Z`;
  const on = resource === undefined ? "" : ` on ${resource}`;
  return `${at}  ${action.padEnd(20)}  ${entityId}${on}${principal === undefined ? "" : `  by ${principal}`}`;
}

interface Place {
  readonly atMs: number;
  readonly eventId: string;
}

function cursorOf({ atMs, eventId }: ArchivedEvent): string {
  return Buffer.from(JSON.stringify([atMs, eventId])).toString("base64url");
}

function cursorPlace(cursor: string | undefined): Place | undefined {
  if (cursor === undefined) return undefined;
  try {
    const [atMs, eventId] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as [unknown, unknown];
    if (typeof atMs === "number" && typeof eventId === "string") return { atMs, eventId };
  } catch {
    // Told below.
  }
  throw new UsageError(`--cursor is "${cursor}"; give the one that the list before ended with.`);
}
