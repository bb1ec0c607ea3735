import { ExistsError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Clock } from "../../ports/system.ts";
import type { DynamoAnswer, DynamoClient, DynamoOperation } from "./client.ts";
import { readFaultOf } from "./errors.ts";
import { RETRY } from "./retry-policy.ts";
import { TTL } from "./schema.ts";
import {
  type DescribedExpiry,
  type DescribedTable,
  isActive,
  isExpiring,
  type TableOptions,
  tableDefinition,
} from "./table-fit.ts";

export interface TableWait {
  readonly client: DynamoClient;
  readonly clock: Clock;
  /** All steps together, in ms. */
  readonly timeoutMs: number;
}

/**
 * Creates the table without any records and waits until it can be used. `expiry`: whether DynamoDB deletes items after
 * their `ttl`.
 */
export async function createTable(
  options: TableOptions & { readonly expiry: boolean },
  wait: TableWait,
): Promise<void> {
  const { name } = options;
  const untilMs = wait.clock.now() + wait.timeoutMs;
  const created = await sent(wait, "CreateTable", tableDefinition(options), untilMs);
  if (created.kind === "failed" && created.code === "ResourceInUseException") {
    throw new ExistsError("table_exists", `A table "${name}" exists already; use it, or choose another name.`);
  }
  if (created.kind !== "answered") readFaultOf(created, name);
  await until(wait, untilMs, `the table "${name}" is active`, async () => {
    const answer = await send(wait, "DescribeTable", { TableName: name }, untilMs);
    return answer.kind === "answered" && isActive(answer.body.Table as DescribedTable);
  });
  if (!options.expiry) return;
  await until(wait, untilMs, `items of "${name}" expire`, async () => {
    const specification = { AttributeName: TTL, Enabled: true };
    const input = { TableName: name, TimeToLiveSpecification: specification };
    const answer = await send(wait, "UpdateTimeToLive", input, untilMs);
    // After a lost answer the second call is refused, because expiry is on already.
    return answer.kind === "answered" || expires(wait, name, untilMs);
  });
}

/** Deletes the table with all that is in it; false where there was none. */
export async function deleteTable(name: string, wait: TableWait): Promise<boolean> {
  const untilMs = wait.clock.now() + wait.timeoutMs;
  const answer = await sent(wait, "DeleteTable", { TableName: name }, untilMs);
  if (isMissing(answer)) return false;
  if (answer.kind !== "answered") readFaultOf(answer, name);
  await until(wait, untilMs, `the table "${name}" is gone`, async () =>
    isMissing(await send(wait, "DescribeTable", { TableName: name }, untilMs)),
  );
  return true;
}

async function expires(wait: TableWait, name: string, untilMs: number): Promise<boolean> {
  const answer = await send(wait, "DescribeTimeToLive", { TableName: name }, untilMs);
  return answer.kind === "answered" && isExpiring((answer.body.TimeToLiveDescription ?? {}) as DescribedExpiry);
}

function send(wait: TableWait, operation: DynamoOperation, input: object, untilMs: number): Promise<DynamoAnswer> {
  const timeoutMs = Math.max(1, untilMs - wait.clock.now());
  return wait.client.send(operation, JSON.stringify(input), { timeoutMs });
}

/** Sends again while the request did not reach DynamoDB, because waiting for its effect would be in vain. */
async function sent(
  wait: TableWait,
  operation: DynamoOperation,
  input: object,
  untilMs: number,
): Promise<DynamoAnswer> {
  for (;;) {
    const answer = await send(wait, operation, input, untilMs);
    if (answer.kind !== "unsent" || wait.clock.now() + RETRY.tablePollMs >= untilMs) return answer;
    await wait.clock.sleep(RETRY.tablePollMs, undefined);
  }
}

async function until({ clock }: TableWait, untilMs: number, what: string, done: () => Promise<boolean>): Promise<void> {
  while (!(await done())) {
    if (clock.now() + RETRY.tablePollMs >= untilMs) {
      throw new RateLimiterUnavailable(`Timed out waiting until ${what}; check again later.`);
    }
    await clock.sleep(RETRY.tablePollMs, undefined);
  }
}

function isMissing(answer: DynamoAnswer): boolean {
  return answer.kind === "failed" && answer.code === "ResourceNotFoundException";
}
