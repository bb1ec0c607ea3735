import assert from "node:assert/strict";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import { type OwnedPiece, type Piece, pieceIn, pieceKey } from "../../src/domain/config/piece.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { NotFoundError } from "../../src/domain/names/errors.ts";
import type { Page, PageRequest } from "../../src/domain/names/paging.ts";
import type { MaybePromise } from "../../src/ports/bucket-store.ts";
import { type Suite, T0, type TestedNamespace } from "./contract-kit.ts";

const A_ON_API: ConfigScope = { level: "entity", entityId: "a", resource: "api" };
const LIMITS = pieceIn("limits", A_ON_API);
const ACCESS = pieceIn("access", { level: "entityDefault", entityId: "a" });
const SYSTEM = pieceIn("onUnavailable", { level: "system" });
const ENTITY: Piece = { what: "entity", entityId: "a" };
const rpm = [Limit.perMinute("rpm", 5)];
const FREELY = { run: undefined, takeOver: false };

const pending = (piece: Piece, owner: string): OwnedPiece => ({ piece, owner, atMs: T0, state: "pending" });
const applied = (piece: Piece, owner: string): OwnedPiece => ({ piece, owner, atMs: T0, state: "applied", value: rpm });

/** Who owns what by declaring it. */
export function manifestContract(suite: Suite): void {
  suite.test("what is entered is listed as it was entered, and no longer when it is struck out", async (place) => {
    const { manifests } = place.scope;
    const entity = { name: "A", cascade: true, parentId: "p", metadata: { tier: "gold" } };
    const all: readonly OwnedPiece[] = [
      applied(LIMITS, "x"),
      pending(ACCESS, "x"),
      { ...pending(SYSTEM, "y"), state: "applied", value: "allow" },
      { ...pending(ENTITY, "x"), state: "applied", value: entity },
    ];
    for (const owned of all) assert.deepEqual(await manifests.enter(owned, FREELY), { kind: "entered" });
    assert.deepEqual(await everything(place), byKey(all));
    assert.deepEqual(await manifests.strike(LIMITS, "x", { run: undefined }), { kind: "struck" });
    assert.deepEqual(await manifests.strike(SYSTEM, "x", { run: undefined }), { kind: "struck" });
    assert.deepEqual(await everything(place), byKey(all.slice(1)), "another's stays");
  });

  suite.test("a piece has one owner: another is refused, or takes it over", async (place) => {
    const { manifests } = place.scope;
    await manifests.enter(applied(LIMITS, "x"), FREELY);
    assert.deepEqual(await manifests.enter(pending(LIMITS, "y"), FREELY), { kind: "ownedByOther", owner: "x" });
    assert.deepEqual(await everything(place), [applied(LIMITS, "x")]);
    assert.deepEqual(await manifests.enter(pending(LIMITS, "y"), { run: undefined, takeOver: true }), {
      kind: "entered",
    });
    assert.deepEqual(await manifests.enter(applied(LIMITS, "x"), FREELY), { kind: "ownedByOther", owner: "y" });
  });

  suite.test("of several that claim one piece at once, one gets it", async (place) => {
    const owners = ["u", "v", "w", "x"];
    const replies = await Promise.all(
      owners.map((owner) => place.scope.manifests.enter(pending(LIMITS, owner), FREELY)),
    );
    assert.equal(replies.filter(({ kind }) => kind === "entered").length, 1);
    const [owned] = await everything(place);
    assert.equal(owned?.owner, owners[replies.findIndex(({ kind }) => kind === "entered")]);
  });

  suite.test("an apply that another of its owner has followed writes nothing any more", async (place) => {
    const { manifests } = place.scope;
    assert.equal(await manifests.getRun("x"), undefined);
    await manifests.setRun({ owner: "x", run: "1", appliedAtMs: T0 });
    await manifests.enter(applied(LIMITS, "x"), { run: "1", takeOver: false });
    await manifests.setRun({ owner: "x", run: "2", appliedAtMs: T0 + 1 });
    assert.deepEqual(await manifests.getRun("x"), { owner: "x", run: "2", appliedAtMs: T0 + 1 });
    const late = { run: "1", takeOver: false };
    assert.deepEqual(await manifests.enter(pending(ACCESS, "x"), late), { kind: "superseded" });
    assert.deepEqual(await manifests.strike(LIMITS, "x", late), { kind: "superseded" });
    assert.deepEqual(await everything(place), [applied(LIMITS, "x")]);
    assert.deepEqual(await manifests.strike(LIMITS, "x", { run: "2" }), { kind: "struck" });
  });

  suite.test("every stored configuration is listed, also one that has only a policy", async (place) => {
    const { config, manifests } = place.scope;
    const event = place.event("limits_set", "a");
    const scopes: readonly ConfigScope[] = [
      { level: "system" },
      { level: "resource", resource: "api" },
      { level: "resource", resource: "z/z" },
      { level: "entityDefault", entityId: "a" },
      A_ON_API,
      { level: "entity", entityId: "a.b", resource: "api" },
      { level: "entity", entityId: "ab", resource: "api" },
    ];
    for (const scope of scopes) await config.set(scope, { limits: rpm }, event);
    await config.setPolicy({ level: "resource", resource: "off" }, { access: "disabled" }, event);
    await config.setPolicy({ level: "entity", entityId: "b", resource: "api" }, { cascade: false }, event);
    const expected = [
      ...scopes.map((scope) => ({ scope, config: { limits: rpm } })),
      { scope: { level: "resource", resource: "off" }, config: { limits: [], access: "disabled" } },
      { scope: { level: "entity", entityId: "b", resource: "api" }, config: { limits: [], cascade: false } },
    ];
    for (const limit of [1, 2, 100]) {
      assert.deepEqual(byText(await paged((page) => manifests.listConfigs({}, page), limit)), byText(expected));
    }
    assert.deepEqual(
      byText(await paged((page) => manifests.listConfigs({ entityId: "a" }, page), 1)),
      byText(expected.slice(3, 5)),
    );
  });

  suite.test("owners go with their namespace, and nothing is entered in a deleted one", async (place) => {
    const gone = await place.register("gone");
    await gone.scope.manifests.setRun({ owner: "x", run: "1", appliedAtMs: T0 });
    await gone.scope.manifests.enter(applied(LIMITS, "x"), FREELY);
    assert.deepEqual(await everything(place), [], "namespaces do not see each other's");
    const deleted = place.event("namespace_deleted", "gone");
    await place.store.namespaces.delete("gone", T0, deleted, place.namespaceId);
    await assert.rejects(async () => gone.scope.manifests.enter(pending(ACCESS, "x"), FREELY), NotFoundError);
    await assert.rejects(
      async () => gone.scope.manifests.setRun({ owner: "x", run: "2", appliedAtMs: T0 }),
      NotFoundError,
    );
    await place.store.namespaces.purge(
      gone.namespaceId,
      place.event("namespace_purged", "gone"),
      place.namespaceId,
      () => {},
    );
    assert.deepEqual(await everything(gone), []);
    assert.equal(await gone.scope.manifests.getRun("x"), undefined);
  });
}

async function everything(place: TestedNamespace): Promise<readonly OwnedPiece[]> {
  return byKey(await paged((page) => place.scope.manifests.list(page), 2));
}

async function paged<Item>(fetch: (page: PageRequest) => MaybePromise<Page<Item>>, limit: number): Promise<Item[]> {
  const found: Item[] = [];
  for (let cursor: string | undefined, isMore = true; isMore; ) {
    const page: Page<Item> = await fetch({ limit, ...(cursor === undefined ? {} : { cursor }) });
    found.push(...page.items);
    cursor = page.cursor;
    isMore = cursor !== undefined;
  }
  return found;
}

function byKey(owned: readonly OwnedPiece[]): readonly OwnedPiece[] {
  return owned.toSorted((a, b) => (pieceKey(a.piece) < pieceKey(b.piece) ? -1 : 1));
}

function byText<Item>(items: readonly Item[]): readonly Item[] {
  return items.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}
