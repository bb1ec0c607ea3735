import type { AuditEvent } from "../domain/config/audit.ts";
import { namespaceNotActive } from "../domain/config/namespace.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import { andThen, run, type Steps, waitFor } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { LevelNames } from "../ports/config-store.ts";
import type {
  CommitReply,
  FoundRecords,
  ListedRecord,
  RecordCommit,
  RecordDeletion,
  RecordKey,
  RecordList,
  RecordPut,
  RecordStore,
  StoredRecord,
} from "../ports/record-store.ts";
import { keyAfter, keyCursor, pageOf } from "../stored/cursor.ts";
import { namespaceKey, REGISTRY } from "./bodies.ts";
import { Moved, Reading } from "./reading.ts";
import { type Generations, touchedBy } from "./seen-changes.ts";

/** A change as it was decided: the reply, and what is to be written for it; nothing if it changes nothing. */
export interface Decision<Reply> {
  readonly reply: Reply;
  readonly write?: {
    readonly puts?: readonly RecordPut[];
    readonly deletes?: readonly RecordDeletion[];
  };
  /** The event of the change, where what it says was decided with it. */
  readonly event?: AuditEvent;
}

/** Decides by the records of the keys that were asked for, in their order; `reading` reads more. */
type Work<Reply> = (
  found: readonly (StoredRecord | undefined)[],
  reading: Reading,
) => Steps<Decision<Reply>> | Decision<Reply>;

/** A change that is always overtaken by others is decided this often. */
const TRIES_MAX = 50;
/** A commit whose answer was lost is sent this often: it knows itself by its event, or by what it wrote. */
const SENDS_MAX = 3;

/** The records of all namespaces share these. */
export interface RecordParts {
  readonly store: RecordStore;
  readonly generations: Generations;
  /** The last change of each namespace that is under way: those of one process would only make each other begin anew. */
  readonly underWay: Map<string, Promise<unknown>>;
}

export function recordParts(store: RecordStore, generations: Generations): RecordParts {
  return { store, generations, underWay: new Map() };
}

/**
 * The records of one namespace, or of the registry. A change reads what it needs, `domain/` decides the rest, and it is committed on condition
 * that nothing has changed meanwhile. No transaction is open in between: a process that stops there holds nobody up.
 */
export class ScopedRecords {
  readonly scope: string;
  readonly #parts: RecordParts;

  constructor(parts: RecordParts, scope: string) {
    this.#parts = parts;
    this.scope = scope;
  }

  /** The generation that was last seen; every read by key notes its own. */
  generation(): number {
    return this.#parts.generations.of(this.scope);
  }

  /** True if nothing that the level goes by has changed from that generation to the last one that was seen. Absent: nobody knows. */
  get isUnchanged(): ((level: LevelNames, since: number) => boolean) | undefined {
    const { generations } = this.#parts;
    if (generations.isUnchanged === undefined) return undefined;
    return (level, since) => generations.isUnchanged?.(this.scope, level, since) === true;
  }

  askGeneration(): MaybePromise<void> {
    return andThen(this.get([]), () => {});
  }

  get(keys: readonly RecordKey[]): MaybePromise<readonly (StoredRecord | undefined)[]> {
    return andThen(this.found(keys), ({ records }) => records);
  }

  /** The same with the generation of the answer. */
  found(keys: readonly RecordKey[]): MaybePromise<FoundRecords> {
    const { store, generations } = this.#parts;
    return andThen(store.get(this.scope, keys, generations.of(this.scope)), (found) => {
      generations.note(this.scope, found.generation, found.changes);
      return found;
    });
  }

  /** One record, as what is made of it. */
  one<Value>(key: RecordKey, read: (record: StoredRecord) => Value): MaybePromise<Value | undefined> {
    return andThen(this.get([key]), ([record]) => record && read(record));
  }

  list(
    list: RecordList,
    after: readonly string[] | undefined,
    limitMax: number,
  ): MaybePromise<readonly ListedRecord[]> {
    return andThen(this.#parts.store.list(this.scope, list, after, limitMax), ({ records }) => records);
  }

  /** A page of a list whose places have so many parts. */
  page<Item>(
    list: RecordList,
    { limit, cursor }: PageRequest,
    parts: number,
    itemOf: (record: ListedRecord) => Item,
  ): MaybePromise<Page<Item>> {
    return andThen(this.list(list, keyAfter(cursor, parts), limit + 1), (found) => {
      const page = pageOf(found, limit, ({ place }) => keyCursor(...place));
      return { ...page, items: page.items.map(itemOf) };
    });
  }

  /** A change of configuration in a namespace that must be active, with its event. */
  make<Reply>(keys: readonly RecordKey[], event: AuditEvent, work: Work<Reply>): MaybePromise<Reply> {
    const { scope } = this;
    return this.#queued(function* (reading) {
      const [namespace, ...found] = yield* reading.get([namespaceKey(scope), ...keys]);
      requireActive(scope, namespace);
      const made = work(found, reading);
      const { reply, write, event: decided = event } = "reply" in made ? made : yield* made;
      const about = { event: { event: decided, auditIn: scope }, bumps: [scope] };
      return { reply, commit: write && onGeneration(scope, reading, write, about) };
    });
  }

  /** A change of namespaces, in the registry. `bumped`: the one whose takes must notice; also whoever made the change does. */
  register<Reply>(
    { event, auditIn }: { readonly event: AuditEvent | undefined; readonly auditIn: string },
    work: (reading: Reading) => Steps<Decision<Reply> & { readonly bumped: string }>,
  ): MaybePromise<Reply> {
    return this.#queued(function* (reading) {
      const { reply, write, bumped } = yield* work(reading);
      const bumps = [...new Set([REGISTRY, auditIn, bumped])];
      const logged = event === undefined ? undefined : { event, auditIn };
      return { reply, commit: write && onGeneration(REGISTRY, reading, write, { event: logged, bumps }) };
    });
  }

  /**
   * A write that is no change of configuration, on condition that all records that it was decided by are as they were: those that are
   * asked for. `active`: only in a namespace that is active.
   */
  write<Reply>(
    keys: readonly RecordKey[],
    where: "active" | "anywhere",
    work: (found: readonly (StoredRecord | undefined)[]) => Decision<Reply>,
  ): MaybePromise<Reply> {
    const { scope } = this;
    const asked = where === "active" ? [namespaceKey(scope), ...keys] : keys;
    return this.#transacted(function* (reading) {
      const records = yield* reading.get(asked);
      if (where === "active") requireActive(scope, records[0]);
      const { reply, write } = work(where === "active" ? records.slice(1) : records);
      if (write === undefined) return { reply, commit: undefined };
      const { puts = [], deletes = [] } = write;
      const versions = asked.map(({ kind, key }, i) => ({ kind, key, version: records[i]?.version ?? 0 }));
      const guard = { kind: "versions", versions } as const;
      const written = { puts, deletes, event: undefined, bumps: [], touched: [] };
      return { reply, commit: { scope, guard, ...written, sent: "first" } };
    });
  }

  #queued<Reply>(decide: Decide<Reply>): MaybePromise<Reply> {
    const { store, underWay } = this.#parts;
    const before = underWay.get(this.scope);
    const work = () => this.#transacted(decide);
    const mine = before === undefined || store.transact !== undefined ? work() : before.then(work, work);
    if (!(mine instanceof Promise) || store.transact !== undefined) return mine;
    underWay.set(this.scope, mine);
    return mine.finally(() => {
      if (underWay.get(this.scope) === mine) underWay.delete(this.scope);
    });
  }

  #transacted<Reply>(decide: Decide<Reply>): MaybePromise<Reply> {
    const { store } = this.#parts;
    return store.transact === undefined ? run(this.#tried(decide)) : store.transact(() => this.#tried(decide));
  }

  *#tried<Reply>(decide: Decide<Reply>): Steps<Reply> {
    const { store, generations } = this.#parts;
    const { scope } = this;
    let lost = 0;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      try {
        const { reply, commit } = yield* decide(new Reading(store, generations, scope));
        if (commit === undefined) return reply;
        const done = yield* this.#sent(commit);
        if (done.kind === "done") return reply;
        if (done.kind === "moved") continue;
        // Without an event it is decided anew: whether it was made is seen by what is then found.
        lost++;
        if (commit.event !== undefined || lost >= SENDS_MAX) throw new CommitUnavailable(done.applied, done.cause);
      } catch (error) {
        if (error instanceof Moved) continue;
        // The commit that was sent before may have been made, whatever became of the later one.
        if (lost > 0 && error instanceof RateLimiterUnavailable) throw new CommitUnavailable("unknown", error);
        throw error;
      }
    }
    throw new RateLimiterUnavailable(
      `${TRIES_MAX} times other processes changed ${scope === REGISTRY ? "namespaces" : `the namespace ${scope}`} ` +
        "between what this change read and what it wrote; nothing was changed. Try again.",
    );
  }

  *#sent(commit: RecordCommit): Steps<CommitReply> {
    const { store, generations } = this.#parts;
    for (let sends = 1; ; sends++) {
      const reply = yield* waitFor(store.commit(sends === 1 ? commit : { ...commit, sent: "again" }));
      if (reply.kind === "done") {
        for (const [id, generation] of reply.generations) {
          // Of one that was made before, the generation may be that of later changes.
          const isOwn = sends === 1 && commit.touched !== undefined;
          generations.note(id, generation, isOwn ? [[generation, commit.touched]] : []);
        }
      }
      if (reply.kind !== "unavailable") return reply;
      if (reply.applied === "no") throw new CommitUnavailable(sends === 1 ? "no" : "unknown", reply.cause);
      // With an event it is known by it, and sent again as it is.
      if (commit.event === undefined || sends >= SENDS_MAX) return reply;
    }
  }
}

/** Reads, and says what is to be committed; nothing where nothing changes. */
type Decide<Reply> = (reading: Reading) => Steps<{ readonly reply: Reply; readonly commit: RecordCommit | undefined }>;

/** A change that could not be written, or perhaps was. */
export class CommitUnavailable extends RateLimiterUnavailable {
  readonly applied: "no" | "unknown";

  constructor(applied: "no" | "unknown", cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(applied === "no" ? why : `${why} Whether the change was made is not known; look before you repeat it.`, {
      cause,
    });
    this.applied = applied;
  }
}

function requireActive(namespaceId: string, namespace: StoredRecord | undefined): void {
  const status = (namespace?.body as { readonly status?: string } | undefined)?.status;
  if (status !== "active") throw namespaceNotActive(namespaceId);
}

function onGeneration(
  scope: string,
  { generation }: Reading,
  { puts = [], deletes = [] }: NonNullable<Decision<unknown>["write"]>,
  about: Pick<RecordCommit, "event" | "bumps">,
): RecordCommit {
  const touched = touchedBy(puts, deletes);
  return { scope, guard: { kind: "generation", generation }, puts, deletes, touched, ...about, sent: "first" };
}
