import { dueAtMs, type LeaseRecord } from "../domain/lease/lease-record.ts";
import { leaseFrom, leaseText } from "../domain/lease/stored-lease.ts";
import { RateLimiterUnavailable, ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { BeginReply, DueLease, KeyBegin, LeaseFilter, LeaseReply, LeaseStore } from "../ports/lease-store.ts";
import type { KeyFinish, KeyMark, LeaseWrite } from "../ports/lease-write.ts";
import type { ListedRecord, RecordKey, RecordPut, StoredRecord } from "../ports/record-store.ts";
import { keyAfter, keyCursor, pageOf } from "../stored/cursor.ts";
import {
  begunKey,
  columnsOf,
  finishedKey,
  isOurs,
  isTaken,
  onCreate,
  onMove,
  type StoredKey,
} from "../stored/lease-rules.ts";
import { objectIn, textOf } from "./bodies.ts";
import { CommitUnavailable, type Decision } from "./changes.ts";
import { leaseKey, markKey } from "./keys.ts";
import type { RecordParts } from "./parts.ts";

/** What the takes of a store write of leases. */
export interface LeasesByTakes {
  readonly isWrittenByTake: boolean;
  /** What a take has written in place of a record, or of an answer, stands for; undefined: it was not written by a take. */
  readonly writeOf: (body: unknown) => LeaseWrite | undefined;
}

/** Leases of one namespace, and the keys they were asked with: each write on condition of the versions that it was decided by. */
export class RecordLeases implements LeaseStore {
  readonly isWrittenByTake: boolean;
  readonly #parts: RecordParts;
  readonly #namespaceId: string;
  readonly #writeOf: LeasesByTakes["writeOf"];

  constructor(parts: RecordParts, namespaceId: string, takes: LeasesByTakes) {
    this.#parts = parts;
    this.#namespaceId = namespaceId;
    this.isWrittenByTake = takes.isWrittenByTake;
    this.#writeOf = takes.writeOf;
  }

  create({ record, finish }: LeaseWrite): Promise<LeaseReply> {
    return this.#write(record?.leaseId, finish, (known, key) => {
      const reply = onCreate(known, record, () => isKeyOurs(key, finish));
      if (reply !== "write") return { reply };
      const puts = [...(record === undefined ? [] : [leasePut(record)]), ...finishPuts(key, finish)];
      return { reply: { kind: "stored" }, write: { puts } };
    });
  }

  async get(leaseId: string): Promise<LeaseRecord | undefined> {
    const [record] = await this.#parts.lists.get(this.#namespaceId, [leaseKey(leaseId)]);
    return record && this.#leaseOf(leaseId, record);
  }

  move(next: LeaseRecord, finish: KeyFinish | undefined): Promise<LeaseReply> {
    return this.#write(next.leaseId, finish, (known, key) => {
      const reply = onMove(known, next, () => isKeyOurs(key, finish));
      if (reply !== "write") return { reply };
      return { reply: { kind: "stored" }, write: { puts: [leasePut(next), ...finishPuts(key, finish)] } };
    });
  }

  async listOpen({ entityId, resource }: LeaseFilter, { limit, cursor }: PageRequest): Promise<Page<LeaseRecord>> {
    const after = keyAfter(cursor, 2);
    if (after !== undefined && !Number.isSafeInteger(Number(after[0]))) {
      throw new ValidationError(
        "cursor_invalid",
        `Not a cursor of this list: ${shown(cursor)}; pass the cursor of the previous page.`,
      );
    }
    const filter = { ...(entityId === undefined ? {} : { entityId }), ...(resource === undefined ? {} : { resource }) };
    const list = { kind: "lease", of: "due", ...filter } as const;
    const found = await this.#parts.lists.list(this.#namespaceId, list, after, limit + 1);
    const leases = found.map((one) => this.#listed(one));
    const page = pageOf(leases, limit, (one) => keyCursor(String(dueAtMs(one)), one.leaseId));
    // What is closed and owes something is due as well.
    return { ...page, items: page.items.filter(({ status }) => status === "open") };
  }

  async findDue(nowMs: number, limitMax: number): Promise<readonly DueLease[]> {
    const list = { kind: "lease", of: "due", untilMs: nowMs } as const;
    const found = await this.#parts.lists.list(this.#namespaceId, list, undefined, limitMax);
    return found.map(({ place }) => ({ leaseId: place[1] as string, dueAtMs: Number(place[0]) }));
  }

  beginKey(begin: KeyBegin): Promise<BeginReply> {
    return this.#onKey(begin, (known): Decision<BeginReply> => {
      // A beginning whose answer was lost finds its own mark.
      const isOwn = known?.mark === begin.mark && known.answer === undefined;
      if (known !== undefined && !isOwn && isTaken(known, begin.nowMs)) {
        const { forgottenAtMs: _, ...record } = known;
        return { reply: { kind: "known", record } };
      }
      return { reply: { kind: "begun" }, write: { puts: [keyPut(begunKey(begin))] } };
    });
  }

  renewKey(mark: KeyMark, { untilMs }: { readonly nowMs: number; readonly untilMs: number }): Promise<boolean> {
    return this.#onKey(mark, (known) =>
      isUnderWay(known, mark) ? { reply: true, write: { puts: [keyPut({ ...known, untilMs })] } } : { reply: false },
    );
  }

  releaseKey(mark: KeyMark): Promise<void> {
    return this.#onKey(mark, (known) =>
      isUnderWay(known, mark) ? { reply: undefined, write: { deletes: [markKey(mark.key)] } } : { reply: undefined },
    );
  }

  async #onKey<Reply>({ key }: KeyMark, work: (known: StoredKey | undefined) => Decision<Reply>): Promise<Reply> {
    return this.#parts.changes.write(this.#namespaceId, [markKey(key)], "anywhere", ([record]) =>
      work(record && this.#keyOf(record)),
    );
  }

  async #write(
    leaseId: string | undefined,
    finish: KeyFinish | undefined,
    work: (known: LeaseRecord | undefined, key: StoredKey | undefined) => Decision<LeaseReply>,
  ): Promise<LeaseReply> {
    const keys: readonly RecordKey[] = [
      ...(leaseId === undefined ? [] : [leaseKey(leaseId)]),
      ...(finish === undefined ? [] : [markKey(finish.key)]),
    ];
    try {
      return await this.#parts.changes.write(this.#namespaceId, keys, "anywhere", (found) => {
        const lease = leaseId === undefined ? undefined : found[0];
        const key = finish === undefined ? undefined : found.at(-1);
        const known = lease && this.#leaseOf(leaseId as string, lease);
        return work(known, key && this.#keyOf(key));
      });
    } catch (error) {
      if (!(error instanceof RateLimiterUnavailable)) throw error;
      // A read that failed has written nothing.
      const applied = error instanceof CommitUnavailable ? error.applied : "no";
      return { kind: "unavailable", applied, cause: error.cause ?? error };
    }
  }

  #listed({ key, body }: ListedRecord): LeaseRecord {
    const leaseId = key[0] as string;
    return this.#leaseOf(leaseId, { kind: "lease", key, body });
  }

  #leaseOf(leaseId: string, record: RecordKey & { readonly body: unknown }): LeaseRecord {
    return this.#writeOf(record.body)?.record ?? leaseFrom(leaseId, textOf(record) as string);
  }

  #keyOf(record: StoredRecord): StoredKey {
    const { drafted, ...key } = objectIn<Omit<StoredKey, "key" | "answer"> & KeyAnswer>(record);
    const answer = drafted === undefined ? key.answer : this.#writeOf(drafted)?.finish?.answer;
    return { ...key, key: record.key[0] as string, answer };
  }
}

function leasePut(record: LeaseRecord): RecordPut {
  const { entityId, resource, dueAtMs: due, forgottenAtMs } = columnsOf(record);
  const by = { entityId, resource, dueAtMs: due, forgottenAtMs };
  return { kind: "lease", key: [record.leaseId], by, body: leaseText(record) };
}

function keyPut({ key, forgottenAtMs, mark, fingerprint, answer, untilMs }: StoredKey): RecordPut {
  const body = { mark, fingerprint, answer, untilMs, forgottenAtMs };
  return { kind: "leaseKey", key: [key], by: { forgottenAtMs }, body };
}

/** `drafted`: in place of the answer, where a take has written it. */
interface KeyAnswer {
  readonly answer?: string;
  readonly drafted?: unknown;
}

function finishPuts(key: StoredKey | undefined, finish: KeyFinish | undefined): readonly RecordPut[] {
  if (key === undefined || finish === undefined) return [];
  return [keyPut({ ...key, ...finishedKey(finish) })];
}

function isKeyOurs(known: StoredKey | undefined, mark: (KeyMark & { readonly answer?: string }) | undefined): boolean {
  return mark === undefined || isOurs(known, mark);
}

function isUnderWay(known: StoredKey | undefined, { mark }: KeyMark): known is StoredKey {
  return known?.mark === mark && known.answer === undefined;
}
