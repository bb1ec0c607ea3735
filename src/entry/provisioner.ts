import { systemClock } from "../adapters/system/clock.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { checkLogLevel, createLog } from "../aggregator/log.ts";
import { NotFoundError, ValidationError } from "../domain/names/errors.ts";
import { pagesOf } from "../domain/names/paging.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { parseWith } from "../manifest/parse.ts";
import type { Store } from "../ports/store.ts";
import { handle, type ProvisionerEvent } from "../provisioner/handler.ts";
import type { Target } from "../provisioner/properties.ts";
import { type CustomResourceResponse, putResponse } from "../provisioner/response.ts";
import { openDynamo } from "./dynamodb.ts";
import { setUpMadeTable } from "./dynamodb-admin.ts";
import { calendar } from "./limits.ts";
import { RateLimiter } from "./rate-limiter.ts";

/** As much of Lambda's context as is used. */
interface LambdaContext {
  getRemainingTimeInMillis?(): number;
}

/** So long before its end an invocation stops its work, to be able to answer. */
const END_MARGIN_MS = 10_000;
/** Where no context says how long there is. */
const TIME_DEFAULT_MS = 300_000;

/** The custom resources `Custom::ZaeLimiterTable` and `Custom::ZaeLimiterLimits`, over the table of `TABLE_NAME`. */
export async function handler(event: ProvisionerEvent, context: LambdaContext = {}): Promise<CustomResourceResponse> {
  const table = fromEnvironment("TABLE_NAME");
  if (table === undefined) throw new ValidationError("option_invalid", "TABLE_NAME is not set; set the table's name.");
  const leftMs = context.getRemainingTimeInMillis?.() ?? TIME_DEFAULT_MS;
  const log = createLog({
    level: checkLogLevel(fromEnvironment("LOG_LEVEL") ?? "info"),
    write: (line) => process.stdout.write(`${line}\n`),
    now: () => systemClock.now(),
  });
  const answer = await handle(event, {
    table,
    open: (namespace) => openNamespace(table, namespace),
    setUp: async () => void (await setUpMadeTable({ stack: table })),
    parse: (text) => parseWith(text, undefined, calendar),
    put: (url, answer) => putResponse(url, answer, systemClock),
    signal: AbortSignal.timeout(Math.max(1, leftMs - END_MARGIN_MS)),
  });
  const { RequestType } = event;
  const { Status, Reason, StackId, LogicalResourceId, Data } = answer;
  // The reason may name an entity: it is the stack's to show.
  log.info("answered", { RequestType, Status, StackId, LogicalResourceId, ...Data });
  if (Reason !== undefined) log.debug("failed", { Reason });
  return answer;
}

async function openNamespace(table: string, namespace: Target["namespace"]): Promise<Limiter> {
  const sharedTable = fromEnvironment("ZAEL_SHARED_TABLE") === "1";
  const name = "name" in namespace ? namespace.name : await nameOf(table, namespace.id, sharedTable);
  return RateLimiter.open({ store: `dynamodb:${table}`, namespace: name, sharedTable });
}

async function nameOf(table: string, id: string, sharedTable: boolean): Promise<string> {
  const store = await openDynamo({ stack: table, sharedTable });
  try {
    return await nameIn(store, id);
  } finally {
    await store.close();
  }
}

async function nameIn({ namespaces }: Store, id: string): Promise<string> {
  for await (const { items } of pagesOf((from) => namespaces.list({ limit: 100, ...from }))) {
    const found = items.find((each) => each.id === id);
    if (found !== undefined) return found.name;
  }
  throw new NotFoundError("namespace_not_found", `There is no namespace with the id "${id}"; correct NamespaceId.`);
}
