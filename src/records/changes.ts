import type { AuditEvent } from "../domain/config/audit.ts";
import { namespaceNotActive } from "../domain/config/namespace.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import { run, type Steps, waitFor } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type {
  CommitReply,
  RecordCommit,
  RecordDeletion,
  RecordKey,
  RecordPut,
  RecordStore,
  StoredRecord,
} from "../ports/record-store.ts";
import type { Generations } from "./generations.ts";
import { namespaceKey, REGISTRY } from "./keys.ts";
import { Moved, Reading } from "./reading.ts";

/** What a change comes to: a reply, and what is to be written for it; nothing where it changes nothing. */
export interface Decision<Reply> {
  readonly reply: Reply;
  readonly write?: {
    readonly puts?: readonly RecordPut[];
    readonly deletes?: readonly RecordDeletion[];
  };
}

/** What was asked for first, in the order of the keys, and a way to ask for more. */
type Work<Reply> = (
  found: readonly (StoredRecord | undefined)[],
  reading: Reading,
) => Steps<Decision<Reply>> | Decision<Reply>;

/** As often a change is decided anew because another one came between. */
const TRIES_MAX = 50;
/** As often a commit is sent whose answer was lost: it knows itself by its event, or by what it wrote. */
const SENDS_MAX = 3;

/**
 * Changes: what is needed is read, the rest is decided by `domain/`, and it is committed on condition that nothing has changed
 * meanwhile. No transaction is open in between: a process that stops there holds nobody up.
 */
export class Changes {
  readonly #store: RecordStore;
  readonly #generations: Generations;
  /** The last change of each namespace that is under way: those of one process would only make each other begin anew. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(store: RecordStore, generations: Generations) {
    this.#store = store;
    this.#generations = generations;
  }

  /** A change of configuration in a namespace that must be active, with its event. */
  make<Reply>(
    namespaceId: string,
    keys: readonly RecordKey[],
    event: AuditEvent,
    work: Work<Reply>,
  ): MaybePromise<Reply> {
    return this.#queued(namespaceId, () =>
      this.#again(namespaceId, function* (reading) {
        const [namespace, ...found] = yield* reading.get([namespaceKey(namespaceId), ...keys]);
        requireActive(namespaceId, namespace);
        const made = work(found, reading);
        const { reply, write } = "reply" in made ? made : yield* made;
        const about = { event: { event, auditIn: namespaceId }, bumps: [namespaceId] };
        return { reply, commit: write && onGeneration(namespaceId, reading, write, about) };
      }),
    );
  }

  /** A change of namespaces. `bumped`: the one whose takes must notice; also whoever made the change does. */
  register<Reply>(
    about: { readonly event: AuditEvent | undefined; readonly auditIn: string },
    work: (reading: Reading) => Steps<Decision<Reply> & { readonly bumped: string }>,
  ): MaybePromise<Reply> {
    const { event, auditIn } = about;
    return this.#queued(REGISTRY, () =>
      this.#again(REGISTRY, function* (reading) {
        const { reply, write, bumped } = yield* work(reading);
        const bumps = [...new Set([REGISTRY, auditIn, bumped])];
        const logged = event === undefined ? undefined : { event, auditIn };
        return { reply, commit: write && onGeneration(REGISTRY, reading, write, { event: logged, bumps }) };
      }),
    );
  }

  /**
   * A write that is no change of configuration, on condition that all records that it was decided by are as they were: those that are
   * asked for. `active`: only in a namespace that is active.
   */
  write<Reply>(
    namespaceId: string,
    keys: readonly RecordKey[],
    where: "active" | "anywhere",
    work: (found: readonly (StoredRecord | undefined)[]) => Decision<Reply>,
  ): MaybePromise<Reply> {
    const asked = where === "active" ? [namespaceKey(namespaceId), ...keys] : keys;
    const decided = function* (reading: Reading): Steps<{ reply: Reply; commit: RecordCommit | undefined }> {
      const records = yield* reading.get(asked);
      if (where === "active") requireActive(namespaceId, records[0]);
      const { reply, write } = work(where === "active" ? records.slice(1) : records);
      if (write === undefined) return { reply, commit: undefined };
      const versions = asked.map(({ kind, key }, i) => ({ kind, key, version: records[i]?.version ?? 0 }));
      const { puts = [], deletes = [] } = write;
      const guard = { kind: "versions", versions } as const;
      return {
        reply,
        commit: { scope: namespaceId, guard, puts, deletes, event: undefined, bumps: [], sent: "first" },
      };
    };
    const change = () => this.#again(namespaceId, decided);
    return this.#store.transact === undefined ? run(change()) : this.#store.transact(change);
  }

  #queued<Reply>(scope: string, change: () => Steps<Reply>): MaybePromise<Reply> {
    if (this.#store.transact !== undefined) return this.#store.transact(change);
    const before = this.#last.get(scope);
    const work = () => run(change());
    const mine = before === undefined ? work() : before.then(work, work);
    if (!(mine instanceof Promise)) return mine;
    this.#last.set(scope, mine);
    return mine.finally(() => {
      if (this.#last.get(scope) === mine) this.#last.delete(scope);
    });
  }

  *#again<Reply>(
    scope: string,
    decide: (reading: Reading) => Steps<{ readonly reply: Reply; readonly commit: RecordCommit | undefined }>,
  ): Steps<Reply> {
    let lost = 0;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      try {
        const { reply, commit } = yield* decide(new Reading(this.#store, this.#generations, scope));
        if (commit === undefined) return reply;
        const done = yield* this.#sent(commit);
        if (done.kind === "done") return reply;
        if (done.kind === "moved") continue;
        // Without an event it is decided anew: whether it was made is seen by what is then found.
        lost++;
        if (commit.event !== undefined || lost >= SENDS_MAX) throw new CommitUnavailable(done.applied, done.cause);
      } catch (error) {
        if (error instanceof Moved) continue;
        // What was sent before may have been made, whatever became of what came after it.
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
    for (let sends = 1; ; sends++) {
      const reply = yield* waitFor(this.#store.commit(sends === 1 ? commit : { ...commit, sent: "again" }));
      if (reply.kind === "done")
        for (const [id, generation] of reply.generations) this.#generations.note(id, generation);
      if (reply.kind !== "unavailable") return reply;
      if (reply.applied === "no") throw new CommitUnavailable(sends === 1 ? "no" : "unknown", reply.cause);
      // With an event it is known by it, and sent again as it is.
      if (commit.event === undefined || sends >= SENDS_MAX) return reply;
    }
  }
}

/** What could not be written, or perhaps was. */
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
  return { scope, guard: { kind: "generation", generation }, puts, deletes, ...about, sent: "first" };
}
