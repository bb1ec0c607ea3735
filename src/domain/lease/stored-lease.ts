import { PLAIN_TICKET } from "../bucket/give-back.ts";
import type { Amount } from "../charge/amounts.ts";
import type { CallerAmount } from "../charge/caller-usage.ts";
import type { Limit } from "../limits/limit.ts";
import type { SetOrigin } from "../limits/limit-set.ts";
import type { LeaseHolding, LeaseLevel, LeaseRecord, LeaseResourceRecord, SeenLimit } from "./lease-record.ts";
import { StoredForm, storedTicket, ticketFrom } from "./stored-ticket.ts";

const VERSION = 1;
const STATUSES = ["open", "settled", "rolledBack", "expired"] as const;
const ON_EXPIRY = ["charge", "refund"] as const;

/**
 * A record as text, short because some stores charge by the kilobyte: limits that several levels share stand once, a limit is
 * named by its place among those of its level. The id stands beside it.
 */
export function leaseText(record: LeaseRecord): string {
  const sets: string[] = [];
  const setOf = (limits: readonly Limit[]): number => {
    const text = JSON.stringify(limits.map(limitRow));
    const known = sets.indexOf(text);
    return known >= 0 ? known : sets.push(text) - 1;
  };
  const resources = record.resources.map(({ resource, levels, overdrawn }) => [
    resource,
    levels.map((level) => levelRow(level, setOf(level.limits))),
    overdrawn,
  ]);
  const beside = record.resources.some((one) => one.beside !== undefined)
    ? record.resources.map((one) => (one.beside ?? []).map(besideRow))
    : undefined;
  const holdingRow = ({ at, ticket, held }: LeaseHolding) => {
    const limits = record.resources[at[0]]?.levels[at[1]]?.limits ?? [];
    return [...at, [storedTicket(ticket)], amountsRow(limits, held)];
  };
  const { version, writer, status, entityId, openedAtMs, expiresAtMs, onExpiry, closing } = record;
  // Most leases have none of these: each is left out where nothing comes after it.
  const rare = [record.owed?.map(holdingRow), record.leavePercent, record.renewingUntilMs, beside];
  return JSON.stringify([
    ...[VERSION, version, writer, status, entityId, openedAtMs, expiresAtMs, onExpiry],
    closing === undefined ? null : [closing.atMs, closing.by],
    record.requestId ?? null,
    record.idempotencyKey ?? null,
    sets.map((text) => JSON.parse(text) as unknown),
    resources,
    record.holdings.map(holdingRow),
    ...rare.slice(0, rare.findLastIndex((field) => field !== undefined) + 1).map((field) => field ?? null),
  ]);
}

/** The record that was written down, exactly. */
export function leaseFrom(leaseId: string, text: string): LeaseRecord {
  const form = new StoredForm(`The stored lease ${leaseId}`);
  const fields = form.list(form.parse(text));
  if (fields[0] !== VERSION) form.fail(`has the form ${String(fields[0])}`);
  // The last ones are there only while something is owed, where something must be left, while slots are renewed, or where something is
  // counted beside the buckets.
  const length = Math.max(14, Math.min(18, fields.length));
  const [, version, writer, status, entityId, openedAtMs, expiresAtMs, onExpiry, ...rest] = form.list(fields, length);
  const [closing, requestId, idempotencyKey, sets, resources, holdings, ...rare] = rest;
  const [owed = null, leavePercent = null, renewingUntilMs = null, beside = null] = rare;
  const limitSets = form.list(sets).map((set) => form.list(set).map((row) => limitFrom(form, row)));
  const besides = beside === null ? [] : form.list(beside);
  const read = form
    .list(resources)
    .map((each, i) => ({ ...resourceFrom(form, each, limitSets), ...besideFrom(form, besides[i]) }));
  return {
    leaseId,
    version: form.natural(version),
    writer: form.text(writer),
    status: form.oneOf(status, STATUSES),
    entityId: form.text(entityId),
    resources: read,
    holdings: form.list(holdings).map((each) => holdingFrom(form, each, read)),
    openedAtMs: form.integer(openedAtMs),
    expiresAtMs: form.integer(expiresAtMs),
    onExpiry: form.oneOf(onExpiry, ON_EXPIRY),
    closing: form.orNone(closing, (value) => {
      const [atMs, by] = form.list(value, 2);
      return { atMs: form.integer(atMs), by: form.text(by) };
    }),
    requestId: form.orNone(requestId, (value) => form.text(value)),
    idempotencyKey: form.orNone(idempotencyKey, (value) => form.text(value)),
    ...(owed === null ? {} : { owed: form.list(owed).map((each) => holdingFrom(form, each, read)) }),
    ...(leavePercent === null ? {} : { leavePercent: form.natural(leavePercent) }),
    ...(renewingUntilMs === null ? {} : { renewingUntilMs: form.integer(renewingUntilMs) }),
  };
}

function limitRow(limit: Limit): readonly unknown[] {
  const { name, capacity, refillAmount, refillPeriodMs, ...rest } = limit;
  const plain = [name, capacity, refillAmount, refillPeriodMs];
  return Object.keys(rest).length === 0 ? plain : [...plain, rest];
}

function limitFrom(form: StoredForm, row: unknown): Limit {
  const [name, capacity, refillAmount, refillPeriodMs, rest] = form.list(row);
  if (rest !== undefined && (typeof rest !== "object" || rest === null)) form.fail("lacks a limit");
  const limit = {
    name: form.text(name),
    capacity: form.natural(capacity),
    refillAmount: form.natural(refillAmount),
    refillPeriodMs: form.natural(refillPeriodMs),
    ...(rest as Partial<Limit> | undefined),
  };
  return Object.freeze(limit);
}

function levelRow(level: LeaseLevel, set: number): readonly unknown[] {
  const { entityId, total, limits, charged, origin, bypass, seen, passed } = level;
  const flags = (bypass ? 1 : 0) + (origin.given ? 2 : 0) + (origin.own ? 4 : 0) + (total ? 8 : 0);
  const standing = seen.flatMap(({ limit, available, capacity }) => [placeOf(limits, limit), available, capacity]);
  const row = [entityId, set, origin.asOfMs, origin.generation, flags, standing];
  const places = charged?.map((name) => placeOf(limits, name));
  if (passed !== undefined) return [...row, places ?? null, amountsRow(limits, passed)];
  return places === undefined ? row : [...row, places];
}

function levelFrom(form: StoredForm, row: unknown, sets: readonly (readonly Limit[])[]): LeaseLevel {
  // The last two are there only where not all limits are charged, or shadows were passed by.
  const length = Math.max(6, Math.min(8, form.list(row).length));
  const [entityId, set, asOfMs, generation, flags, standing, places = null, passed] = form.list(row, length);
  const limits = sets[form.natural(set)] ?? form.fail("names limits that it does not have");
  const flag = form.natural(flags);
  const origin: SetOrigin = {
    asOfMs: form.integer(asOfMs),
    generation: form.orNone(generation, (value) => form.integer(value)) ?? null,
    ...(flag & 2 ? { given: true } : {}),
    ...(flag & 4 ? { own: true } : {}),
  };
  const seen: SeenLimit[] = triples(form, standing).map(([place, available, capacity]) => ({
    limit: nameAt(form, limits, place),
    available: form.integer(available),
    capacity: form.integer(capacity),
  }));
  const charged = form.orNone(places, (list) => form.list(list).map((place) => nameAt(form, limits, place)));
  return {
    ...{ entityId: form.text(entityId), limits, origin, bypass: (flag & 1) === 1, seen },
    ...(flag & 8 ? { total: true as const } : {}),
    ...(charged === undefined ? {} : { charged }),
    ...(length < 8 ? {} : { passed: amountsIn(form, limits, passed) }),
  };
}

function resourceFrom(form: StoredForm, row: unknown, sets: readonly (readonly Limit[])[]): LeaseResourceRecord {
  const [resource, levels, overdrawn] = form.list(row, 3);
  return {
    resource: form.text(resource),
    levels: form.list(levels).map((level) => levelFrom(form, level, sets)),
    overdrawn: form.list(overdrawn).map((name) => form.text(name)),
  };
}

function besideRow({ measure, name, isAlone, milli }: CallerAmount): readonly unknown[] {
  return [measure, name, isAlone ? 1 : 0, milli];
}

function besideFrom(form: StoredForm, rows: unknown): Pick<LeaseResourceRecord, "beside"> {
  if (rows === undefined) return {};
  const amounts = form.list(rows).map((row): CallerAmount => {
    const [measure, name, isAlone, milli] = form.list(row, 4);
    return { measure: form.text(measure), name: form.text(name), isAlone: isAlone === 1, milli: form.natural(milli) };
  });
  return amounts.length === 0 ? {} : { beside: amounts };
}

function holdingFrom(form: StoredForm, row: unknown, resources: readonly LeaseResourceRecord[]): LeaseHolding {
  const [resource, level, ticket, amounts] = form.list(row, 4);
  const at = [form.natural(resource), form.natural(level)] as const;
  const { limits } = resources[at[0]]?.levels[at[1]] ?? form.fail("holds tokens of a level that it does not have");
  const held = amountsIn(form, limits, amounts);
  // Older records have none where nothing was taken at the start.
  const own = form.orNone(ticket, (value) => ticketFrom(form.list(value, 1)[0]));
  return { at, ticket: own ?? PLAIN_TICKET, held };
}

function amountsRow(limits: readonly Limit[], amounts: readonly Amount[]): readonly number[] {
  return amounts.flatMap(({ limit, milli }) => [placeOf(limits, limit), milli]);
}

function amountsIn(form: StoredForm, limits: readonly Limit[], row: unknown): readonly Amount[] {
  const flat = form.list(row);
  const amounts: Amount[] = [];
  for (let i = 0; i < flat.length; i += 2) {
    amounts.push({ limit: nameAt(form, limits, flat[i]), milli: form.natural(flat[i + 1]) });
  }
  return amounts;
}

function triples(form: StoredForm, value: unknown): readonly (readonly unknown[])[] {
  const flat = form.list(value);
  return Array.from({ length: Math.ceil(flat.length / 3) }, (_, i) => flat.slice(3 * i, 3 * i + 3));
}

function placeOf(limits: readonly Limit[], name: string): number {
  return limits.findIndex((limit) => limit.name === name);
}

function nameAt(form: StoredForm, limits: readonly Limit[], place: unknown): string {
  return limits[form.natural(place)]?.name ?? form.fail("names a limit that it does not have");
}

const DRAFT_VERSION = 1;

/** A lease that is about to be taken. */
export interface StoredDraft {
  /** The record as it will be, but for what the take answers: nothing is seen, and every ticket is the plain one. */
  readonly record: LeaseRecord;
  /** The ms for which slots were asked for; the lease may end earlier. 0: it is charged at once, and there is no lease. */
  readonly holdMs: number;
  readonly namespace: string;
  /** The key that its answer is remembered by, with the mark of whoever works under it. */
  readonly key: { readonly key: string; readonly mark: string } | undefined;
}

/** A draft as text. The id of its lease stands beside it. */
export function draftText({ record, holdMs, namespace, key }: StoredDraft): string {
  return JSON.stringify([
    DRAFT_VERSION,
    leaseText(record),
    holdMs,
    namespace,
    key === undefined ? null : [key.key, key.mark],
  ]);
}

/** The draft that was written down, exactly. */
export function draftFrom(leaseId: string, text: string): StoredDraft {
  const form = new StoredForm(`The draft of the lease ${leaseId}`);
  const [version, record, holdMs, namespace, key] = form.list(form.parse(text), 5);
  if (version !== DRAFT_VERSION) form.fail(`has the form ${String(version)}`);
  return {
    record: leaseFrom(leaseId, form.text(record)),
    holdMs: form.natural(holdMs),
    namespace: form.text(namespace),
    key: form.orNone(key, (value) => {
      const [name, mark] = form.list(value, 2);
      return { key: form.text(name), mark: form.text(mark) };
    }),
  };
}
