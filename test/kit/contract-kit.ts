import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { availableMilli, type BucketState, findLimit } from "../../src/domain/bucket/bucket-state.ts";
import { PLAIN_TICKET, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Amount, Tokens } from "../../src/domain/charge/amounts.ts";
import type { AuditAction, AuditEvent } from "../../src/domain/config/audit.ts";
import type { ConfigScope, LevelConfig, LevelOptions, PolicyChange } from "../../src/domain/config/config.ts";
import { type Entity, type NewEntity, newEntity } from "../../src/domain/config/entity.ts";
import { DEFAULT_NAMESPACE } from "../../src/domain/config/namespace.ts";
import { type NewPlan, newPlan, type Plan } from "../../src/domain/config/plan.ts";
import { type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import { limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Page, PageRequest } from "../../src/domain/names/paging.ts";
import type {
  Answer,
  Claim,
  Held,
  MaybePromise,
  Operation,
  OperationReply,
  RenewReply,
  TakeReply,
  WriteReply,
} from "../../src/ports/bucket-store.ts";
import type { SetReply } from "../../src/ports/config-store.ts";
import type { ScopedStore, Store } from "../../src/ports/store.ts";

/**
 * Opens a new, empty store with the namespace `default`. `another`: the same data as another process has it, for stores that
 * several processes share; it is closed with the store.
 */
export type OpenStore = () => MaybePromise<{
  readonly store: Store;
  another?(): MaybePromise<Store>;
  close(): MaybePromise<void>;
}>;

/**
 * What a store need not have.
 * - `generation`: it cannot tell that configuration changed.
 * - `pastHours`: usage of an hour that is over is final; what a clock that is behind takes counts in the open hour.
 * - `thresholds`: it keeps no marks of what was told of a limit (`notifyAt`), and such limits are refused.
 * - `slots`: it refuses limits on how many are at once.
 */
export type Gap = "generation" | "pastHours" | "thresholds" | "slots";

/** A fresh store for every test, and what the tests say about it. */
export interface Suite {
  readonly gaps: ReadonlySet<Gap>;
  /** The most times that a story repeats one thing, to see that nothing is lost a little each time, or swept away meanwhile. */
  readonly repeatsMax: number;
  test(sentence: string, story: (place: TestedNamespace) => Promise<void>): void;
}

export function suiteOn(open: OpenStore, gaps: readonly Gap[], repeatsMax = Number.POSITIVE_INFINITY): Suite {
  return {
    gaps: new Set(gaps),
    repeatsMax,
    test: (sentence, story) => {
      test(sentence, async () => {
        const opened = await open();
        const { store, close } = opened;
        try {
          await story(await TestedNamespace.in(store, DEFAULT_NAMESPACE, () => opened.another?.() ?? store));
        } finally {
          await close();
        }
      });
    },
  };
}

/** Noon, in the middle of a month: an hour more or less changes neither day nor month. */
export const T0 = Date.UTC(2026, 2, 15, 12);

export const SECOND_MS = 1_000;
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

/** Makers of limits whose crons are not checked here: the calendar of the store under test must know them. */
export const Kinds = limitMakers({ problemOf: () => undefined });

interface ClaimOptions {
  readonly resource?: string;
  readonly origin?: SetOrigin;
  readonly bypass?: boolean;
}

interface TakeOptions {
  readonly generation?: number;
  readonly limitsOf?: "lease";
  readonly atomic?: boolean;
  readonly goesBy?: () => readonly string[];
}

/** One namespace of the store under test, with the port's long words made short. */
export class TestedNamespace {
  readonly store: Store;
  readonly scope: ScopedStore;
  readonly namespaceId: string;
  /** Of the last take on each bucket: a store may want to know where something was taken before it is given back. */
  readonly #tickets = new Map<string, Ticket>();
  readonly #another: () => MaybePromise<Store>;
  #events = 0;

  private constructor(store: Store, namespaceId: string, another: () => MaybePromise<Store>) {
    this.store = store;
    this.scope = store.scope(namespaceId);
    this.namespaceId = namespaceId;
    this.#another = another;
  }

  static async in(
    store: Store,
    name: string = DEFAULT_NAMESPACE,
    another: () => MaybePromise<Store> = () => store,
  ): Promise<TestedNamespace> {
    const namespace = await store.namespaces.get(name);
    assert.ok(namespace !== undefined, `the store has no namespace ${name}`);
    return new TestedNamespace(store, namespace.id, another);
  }

  /** The same namespace as another process has it; as this one, where the store is not shared. */
  async another(): Promise<TestedNamespace> {
    return new TestedNamespace(await this.#another(), this.namespaceId, this.#another);
  }

  /** Another namespace of the same store, registered now. */
  async register(name: string): Promise<TestedNamespace> {
    const namespace = { id: `id-of-${name}`, name, status: "active", createdAtMs: T0 } as const;
    await this.store.namespaces.register(
      namespace,
      this.event("namespace_registered", `$NAMESPACE:${name}`),
      this.namespaceId,
    );
    return TestedNamespace.in(this.store, name);
  }

  async take(claims: readonly Claim[], nowMs: number, options: TakeOptions = {}): Promise<readonly Answer[]> {
    const reply = await this.takeReply(claims, nowMs, options);
    assert.ok(reply !== "stale", "the take was answered as stale");
    for (const [i, answer] of reply.entries()) {
      if (answer.kind === "taken") this.#tickets.set((claims[i] as Claim).bucket.id, answer.ticket);
    }
    return reply;
  }

  takeReply(claims: readonly Claim[], nowMs: number, options: TakeOptions = {}): MaybePromise<TakeReply> {
    const { atomic = false, ...known } = options;
    return this.scope.buckets.take(claims, { nowMs, timeoutMs: 60_000, generation: undefined, ...known, atomic });
  }

  /** Whether the one claim is granted. */
  async grants(claim: Claim, nowMs: number): Promise<boolean> {
    const [answer] = await this.take([claim], nowMs);
    return answer?.kind === "taken";
  }

  /** Takes all that is there of one limit, in whole tokens, and says how much it was. */
  async drain(claim: (tokens: number) => Claim, nowMs: number, most: number): Promise<number> {
    let taken = 0;
    for (let step = most; step >= 1; ) {
      if (taken + step <= most && (await this.grants(claim(step), nowMs))) taken += step;
      else step = Math.floor(step / 2);
    }
    return taken;
  }

  /** Takes, and says where it was taken: for a story in which several takes are given back. */
  async ticket(claim: Claim, nowMs: number): Promise<Ticket> {
    const [answer] = await this.take([claim], nowMs);
    assert.ok(answer?.kind === "taken", `the take was answered with ${answer?.kind}`);
    return answer.ticket;
  }

  /** What a limit of a bucket holds, in millitokens, with all that time did: asked by a claim of nothing. */
  async holds({ bucket, set, origin }: Claim, name: string, nowMs: number): Promise<number> {
    const [answer] = await this.take([{ bucket, set, origin, take: amountsOf({ [name]: 0 }), bypass: false }], nowMs);
    assert.ok(answer?.kind === "taken" || answer?.kind === "short", `answered with ${answer?.kind}`);
    return levelOf(answer.state, name, nowMs);
  }

  debit(claim: Claim, tokens: Tokens, nowMs: number): MaybePromise<WriteReply> {
    return this.scope.buckets.debit(this.#held(claim), amountsOf(tokens), { nowMs, timeoutMs: 60_000 });
  }

  credit(claim: Claim, tokens: Tokens, nowMs: number): MaybePromise<WriteReply> {
    return this.scope.buckets.credit(this.#held(claim), amountsOf(tokens), { nowMs, timeoutMs: 60_000 });
  }

  /** Gives back without a ticket; answers what was given, by limit, in millitokens. */
  async refund(claim: Claim, tokens: Tokens, nowMs: number): Promise<Readonly<Record<string, number>> | "gone"> {
    const { ticket: _, bypass: __, ...of } = this.#held(claim);
    const reply = await this.scope.buckets.refund(of, amountsOf(tokens), { nowMs, timeoutMs: 60_000 });
    if (reply.kind === "gone") return "gone";
    assert.equal(reply.kind, "applied");
    return Object.fromEntries((reply.given ?? []).map(({ limit, milli }) => [limit, milli]));
  }

  /** Gives back what was taken with this ticket, not with the last one. */
  giveBack(claim: Claim, ticket: Ticket, tokens: Tokens, nowMs: number): MaybePromise<WriteReply> {
    return this.scope.buckets.credit({ ...this.#held(claim), ticket }, amountsOf(tokens), { nowMs, timeoutMs: 60_000 });
  }

  /** Gives slots back that were used. */
  settle(claim: Claim, ticket: Ticket, tokens: Tokens, nowMs: number): MaybePromise<WriteReply> {
    const context = { nowMs, timeoutMs: 60_000, slotsUsed: true } as const;
    return this.scope.buckets.credit({ ...this.#held(claim), ticket }, amountsOf(tokens), context);
  }

  /** Holds slots of this ticket for as long again: for the time that the claim says, where it says one. */
  renew(claim: Claim, ticket: Ticket, tokens: Tokens, nowMs: number): MaybePromise<RenewReply> {
    const { holdMs } = claim;
    const held = { ...this.#held(claim), ticket, ...(holdMs === undefined ? {} : { holdMs }) };
    return this.scope.buckets.renew(held, amountsOf(tokens), { nowMs, timeoutMs: 60_000 });
  }

  topUp(claim: Claim, tokens: Tokens, nowMs: number, key?: string): MaybePromise<OperationReply> {
    return this.scope.buckets.topUp(this.#operation(claim, "bucket_topped_up", nowMs, key), amountsOf(tokens));
  }

  reset(
    claim: Claim,
    limits: readonly string[] | undefined,
    nowMs: number,
    key?: string,
  ): MaybePromise<OperationReply> {
    return this.scope.buckets.reset(this.#operation(claim, "bucket_reset", nowMs, key), limits);
  }

  async state(entityId: string, resource = "api"): Promise<BucketState | undefined> {
    const [state] = await this.scope.buckets.read([bucketKey(entityId, resource)]);
    return state;
  }

  /** What a stored limit holds, in millitokens. */
  async level(entityId: string, limit: string, nowMs: number, resource = "api"): Promise<number> {
    return levelOf(await this.state(entityId, resource), limit, nowMs);
  }

  /** What configuration says of one level; without the number of the reading, which says nothing of it. */
  async resolve(entityId: string, resource: string): Promise<LevelConfig> {
    const {
      reading: _,
      isConsistent: __,
      generation: ___,
      ...level
    } = await this.scope.config.resolve(entityId, resource);
    return level;
  }

  set(scope: ConfigScope, limits: readonly Limit[], options: LevelOptions = {}): MaybePromise<SetReply> {
    return this.scope.config.set(scope, { limits, ...options }, this.event("limits_set", "somebody"));
  }

  async createPlan(given: NewPlan): Promise<Plan> {
    const plan = newPlan(given, T0);
    const reply = await this.scope.plans.create(plan, this.event("plan_created", `$PLAN:${plan.id}`));
    assert.deepEqual(reply, { kind: "created" });
    return plan;
  }

  setPolicy(scope: ConfigScope, change: PolicyChange): MaybePromise<boolean> {
    return this.scope.config.setPolicy(scope, change, this.event("access_set", "somebody"));
  }

  async create(given: NewEntity, nowMs: number = T0): Promise<Entity> {
    const entity = newEntity(given, nowMs);
    const reply = await this.scope.entities.create(entity, this.event("entity_created", entity.id));
    assert.deepEqual(reply, { kind: "created" });
    return entity;
  }

  event(action: AuditAction, entityId: string, atMs: number = T0): AuditEvent {
    return { eventId: `event-${++this.#events}`, atMs, action, entityId, details: { n: this.#events } };
  }

  #operation({ bucket, set, origin }: Claim, action: AuditAction, nowMs: number, key?: string): Operation {
    const event = this.event(action, bucket.entityId, nowMs);
    return { bucket, set, origin, nowMs, idempotencyKey: key ?? event.eventId, event };
  }

  #held({ bucket, set, origin, bypass }: Claim): Held {
    return { bucket, set, origin, bypass, ticket: this.#tickets.get(bucket.id) ?? PLAIN_TICKET };
  }
}

/** A claim of whole tokens on the resource `api`, as of a request whose configuration was just read. */
export function claim(
  entityId: string,
  limits: readonly Limit[],
  tokens: Tokens,
  { resource = "api", origin = { asOfMs: T0, generation: 1 }, bypass = false }: ClaimOptions = {},
): Claim {
  return {
    bucket: bucketKey(entityId, resource),
    set: limitSet(limits),
    origin,
    take: amountsOf(tokens),
    bypass,
    isConfigJustRead: true,
  };
}

export function amountsOf(tokens: Tokens): Amount[] {
  return Object.entries(tokens).map(([limit, count]) => ({ limit, milli: (count ?? 0) * 1000 }));
}

export function levelOf(state: BucketState | undefined, name: string, nowMs: number): number {
  assert.ok(state !== undefined, "the bucket is not stored");
  const limit = findLimit(state, name);
  assert.ok(limit !== undefined, `the bucket has no limit ${name}`);
  return availableMilli(state, limit, nowMs);
}

export function kinds(answers: readonly Answer[]): readonly Answer["kind"][] {
  return answers.map(({ kind }) => kind);
}

/** Everything of a list, page after page: no page longer than asked for, none empty but an only one. */
export async function allPages<Item>(
  fetch: (page: PageRequest) => MaybePromise<Page<Item>>,
  limit: number,
): Promise<Item[]> {
  const items: Item[] = [];
  let cursor: string | undefined;
  do {
    const page: Page<Item> = await fetch({ limit, ...(cursor === undefined ? {} : { cursor }) });
    assert.ok(page.items.length <= limit, `a page of ${page.items.length} where ${limit} were asked for`);
    assert.ok(page.items.length > 0 || (items.length === 0 && page.cursor === undefined), "an empty page");
    items.push(...page.items);
    cursor = page.cursor;
    assert.ok(items.length < 1000, "the pages never end");
  } while (cursor !== undefined);
  return items;
}

/** The same list, whatever the size of its pages. */
export async function samePaged<Item>(
  fetch: (page: PageRequest) => MaybePromise<Page<Item>>,
  expected: readonly Item[],
): Promise<void> {
  for (const limit of [1, 2, 100]) assert.deepEqual(await allPages(fetch, limit), expected, `pages of ${limit}`);
}
