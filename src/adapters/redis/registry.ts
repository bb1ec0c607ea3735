import type { AuditEvent } from "../../domain/config/audit.ts";
import type { CommitReply, RecordCommit } from "../../ports/record-store.ts";
import { REGISTRY } from "../../records/bodies.ts";
import { runCommit, type SlotReply } from "./commit-script.ts";
import { type Reply, textOf } from "./connection.ts";
import { auditRest, keptIn, restOf } from "./record-texts.ts";
import { clearedAfter, deletesIn, eventPuts, guardsIn, putsIn, type RecordParts } from "./writes.ts";

/** What a change of the registry does in the slot of one namespace. */
interface Effect {
  readonly namespaceId: string;
  readonly bumps: boolean;
  /** The namespace's own record, as it is kept behind the line of the version; empty: it is deleted. */
  readonly record?: string;
  readonly event?: AuditEvent;
}

/** A change of the registry that is to be applied in the slots of namespaces. */
interface Pending {
  readonly version: number;
  readonly touched: readonly string[] | undefined;
  readonly effects: readonly Effect[];
}

/** In a namespace: the last change of the registry that was applied, and the generation that it made. */
interface Seen {
  readonly number: number;
  readonly generation: number;
}

/**
 * Changes of namespaces. A namespace has its record twice: in the registry, by which it is found, and in its own slot, where its takes and changes
 * look at it. No script writes in two slots: a change is written in the registry together with what is still to be done in other slots; whoever comes
 * next does that first, so that a change that was cut off is finished by any process, and never done twice.
 */
export class Registry {
  readonly #parts: RecordParts;

  constructor(parts: RecordParts) {
    this.#parts = parts;
  }

  /** Finishes the change that is still to be applied, if there is one. */
  async finishPending(): Promise<void> {
    const { connection, keysOf } = this.#parts;
    const [reply] = await connection.send([["GET", keysOf(REGISTRY).registrySeen]]);
    await this.finish(reply);
  }

  /** The same, where the value of its key was read already. */
  async finish(reply: Reply | undefined): Promise<void> {
    const pending = pendingIn(reply);
    if (pending !== undefined) await this.#finish(pending);
  }

  async commit(commit: RecordCommit): Promise<CommitReply> {
    const { connection, keysOf, numbers, answerMs, drops } = this.#parts;
    const { guard, bumps, touched, event } = commit;
    const keys = keysOf(REGISTRY);
    const effects = effectsOf(commit);
    const outbox = {
      key: keys.registrySeen,
      rest: restOf({ by: {}, body: { touched: touched ?? null, effects } }),
      hints: [],
    };
    const writes = [...deletesIn(keys, commit), ...putsIn(keys, commit), ...eventPuts(keys, commit)];
    const own = event?.auditIn === REGISTRY ? { event: logged(event.event) } : {};
    for (;;) {
      await this.finishPending();
      const reply = await runCommit(
        connection,
        keys,
        {
          ...(guard.kind === "generation" ? { generation: guard.generation } : {}),
          guards: [...guardsIn(keys, commit), { key: keys.registrySeen, version: 0 }],
          ...{ bumps: bumps.includes(REGISTRY), touched, puts: effects.length === 0 ? writes : [...writes, outbox] },
          ...(event === undefined ? {} : { known: { key: keys.event(event.event.eventId), sent: commit.sent } }),
        },
        { ...own, numbers, answerMs },
      );
      if (reply.kind !== "done") {
        const [pending] = await connection.send([["GET", keys.registrySeen]]);
        if (pendingIn(pending) !== undefined) continue;
        return { kind: "moved" };
      }
      drops.add(REGISTRY, clearedAfter(keys, writes, reply));
      return { kind: "done", generations: await this.#generations(commit, reply, effects), deleted: 0 };
    }
  }

  async #generations(
    { bumps, touched }: RecordCommit,
    { generation, version, found }: Extract<SlotReply, { readonly kind: "done" }>,
    effects: readonly Effect[],
  ): Promise<ReadonlyMap<string, number>> {
    const wasMade = found.length === 0;
    if (wasMade) await this.finishPending();
    const made = wasMade ? new Map<string, number>() : await this.#finish({ version, touched, effects });
    const generations = new Map<string, number>();
    for (const id of bumps) {
      const own = id === REGISTRY ? generation : (made.get(id) ?? (wasMade ? await this.#generationOf(id) : undefined));
      if (own !== undefined) generations.set(id, own);
    }
    return generations;
  }

  async #generationOf(namespaceId: string): Promise<number> {
    const { connection, keysOf } = this.#parts;
    const [reply] = await connection.send([["GET", keysOf(namespaceId).generation]]);
    return Number(textOf(reply) ?? 0);
  }

  /** Answers the generations that it made; of one that another process has applied and passed since, none. */
  async #finish(pending: Pending): Promise<ReadonlyMap<string, number>> {
    const { connection, keysOf, numbers, answerMs } = this.#parts;
    const generations = new Map<string, number>();
    for (const effect of pending.effects) {
      const generation = await this.#apply(pending, effect);
      if (generation !== undefined) generations.set(effect.namespaceId, generation);
    }
    if (pending.effects.length === 0) return generations;
    const keys = keysOf(REGISTRY);
    const guards = [{ key: keys.registrySeen, version: pending.version }];
    const puts = [{ key: keys.registrySeen, rest: "", hints: [] }];
    await runCommit(connection, keys, { guards, bumps: false, touched: [], puts }, { numbers, answerMs });
    return generations;
  }

  async #apply({ version, touched }: Pending, effect: Effect): Promise<number | undefined> {
    const { connection, keysOf, numbers, answerMs, drops } = this.#parts;
    const { namespaceId, bumps, record, event } = effect;
    const keys = keysOf(namespaceId);
    for (;;) {
      const [reply] = await connection.send([["MGET", keys.generation, keys.registrySeen]]);
      const [number, value] = reply as readonly Reply[];
      const generation = Number(textOf(number) ?? 0);
      const kept = keptIn(value);
      const seen = kept?.body as Seen | undefined;
      if (seen !== undefined && seen.number >= version) return seen.number === version ? seen.generation : undefined;
      const made: Seen = { number: version, generation: bumps ? generation + 1 : generation };
      const own =
        record === undefined
          ? []
          : [{ key: keys.record({ kind: "namespace", key: [namespaceId] }), rest: record, hints: [] }];
      const done = await runCommit(
        connection,
        keys,
        {
          ...{ generation, guards: [{ key: keys.registrySeen, version: kept?.version ?? 0 }], bumps, touched },
          puts: [...own, { key: keys.registrySeen, rest: restOf({ by: {}, body: made }), hints: [] }],
        },
        { ...(event === undefined ? {} : { event: logged(event) }), numbers, answerMs },
      );
      if (done.kind !== "done") continue;
      if (record === "")
        drops.add(
          namespaceId,
          own.map(({ key }) => ({ key, version: "", hints: [] })),
        );
      return done.generation;
    }
  }
}

function logged(event: AuditEvent) {
  return { entityId: event.entityId, rest: auditRest(event) };
}

function pendingIn(reply: Reply | undefined): Pending | undefined {
  const kept = keptIn(reply);
  if (kept === undefined) return undefined;
  const { touched, effects } = kept.body as {
    readonly touched: readonly string[] | null;
    readonly effects: Pending["effects"];
  };
  return { version: kept.version, touched: touched ?? undefined, effects };
}

function effectsOf({ puts, deletes, bumps, event }: RecordCommit): readonly Effect[] {
  const records = new Map<string, string>();
  for (const each of deletes) if (each.kind === "namespace") records.set(each.key[0] as string, "");
  for (const put of puts) if (put.kind === "namespace") records.set(put.key[0] as string, restOf(put));
  const ids = new Set([...records.keys(), ...bumps, ...(event === undefined ? [] : [event.auditIn])]);
  ids.delete(REGISTRY);
  return Array.from(ids, (namespaceId) => {
    const record = records.get(namespaceId);
    return {
      ...{ namespaceId, bumps: bumps.includes(namespaceId) },
      ...(record === undefined ? {} : { record }),
      ...(event?.auditIn === namespaceId ? { event: event.event } : {}),
    };
  });
}
