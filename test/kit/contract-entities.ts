import assert from "node:assert/strict";
import { type Entity, type EntityPatch, newEntity } from "../../src/domain/config/entity.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { NotFoundError } from "../../src/domain/names/errors.ts";
import type { CreateReply, UpdateReply } from "../../src/ports/config-store.ts";
import { claim, type Suite, samePaged, T0, type TestedNamespace } from "./contract-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];

/** Entities and their hierarchy. */
export function entityContract(suite: Suite): void {
  suite.test("an entity comes back as it was created, and a second of that id changes nothing", async (place) => {
    const root = await place.create({ id: "root" });
    const given = { id: "a", name: "Ä name", parentId: "root", cascade: true, metadata: { k: "v" } };
    const entity = await place.create(given);
    assert.deepEqual(await place.scope.entities.get("a"), entity);
    assert.deepEqual(await place.scope.entities.get("root"), root);
    assert.deepEqual(await create(place, "a", undefined), { kind: "exists" });
    assert.deepEqual(await place.scope.entities.get("a"), entity);
    assert.equal(await place.scope.entities.get("nobody"), undefined);
  });

  suite.test("of two who create the same entity at once, one is told that it exists", async (place) => {
    const replies = await Promise.all([1, 2, 3].map(() => create(place, "a", undefined)));
    assert.deepEqual(replies.map(({ kind }) => kind).sort(), ["created", "exists", "exists"]);
  });

  suite.test("a parent must exist, and nobody is his own parent", async (place) => {
    assert.deepEqual(await create(place, "a", "nobody"), { kind: "parentMissing", parentId: "nobody" });
    assert.equal((await create(place, "a", "a")).kind, "cycle");
    assert.equal(await place.scope.entities.get("a"), undefined);
    await place.create({ id: "a" });
    assert.equal((await update(place, "a", { parentId: "a" })).kind, "cycle");
    assert.deepEqual(await update(place, "a", { parentId: "nobody" }), { kind: "parentMissing", parentId: "nobody" });
  });

  suite.test("an entity cannot be moved below its own grandchild", async (place) => {
    await place.create({ id: "a" });
    await place.create({ id: "b", parentId: "a" });
    await place.create({ id: "c", parentId: "b" });
    const reply = await update(place, "a", { parentId: "c" });
    assert.deepEqual(reply, { kind: "cycle", path: ["a", "c", "b", "a"] });
    assert.equal((await place.scope.entities.get("a"))?.parentId, undefined);
  });

  suite.test("eight levels are as deep as it goes, counted upwards and downwards", async (place) => {
    await chain(place, "a", 8);
    assert.equal((await create(place, "a9", "a8")).kind, "tooDeep");
    await chain(place, "b", 4);
    await chain(place, "c", 5);
    // Four below four are eight; five below four would be nine.
    assert.equal((await update(place, "c1", { parentId: "b4" })).kind, "tooDeep");
    assert.equal((await update(place, "c2", { parentId: "b4" })).kind, "updated");
  });

  suite.test("a change replaces what it names and leaves the rest, one version later", async (place) => {
    await place.create({ id: "root" });
    const before = await place.create({ id: "a", name: "A", parentId: "root", cascade: true, metadata: { k: "v" } });
    const reply = await update(place, "a", { metadata: { other: "w" } }, undefined, T0 + 5);
    const after = { ...before, metadata: { other: "w" }, version: 2, updatedAtMs: T0 + 5 };
    assert.deepEqual(reply, { kind: "updated", entity: after });
    assert.deepEqual(await place.scope.entities.get("a"), after);
  });

  suite.test(
    "an entity that is given its first parent is charged to it; one that is moved stays as it was",
    async (place) => {
      await place.create({ id: "one" });
      await place.create({ id: "two" });
      await place.create({ id: "root" });
      await place.create({ id: "free", parentId: "one", cascade: false });
      for (const id of ["root", "free"]) await update(place, id, { parentId: "two" });
      const cascades = async (id: string) => {
        const { created, cascade, parentId } = await place.resolve(id, "api");
        assert.equal((await place.scope.entities.get(id))?.cascade, cascade);
        return { created, cascade, parentId };
      };
      assert.deepEqual(await cascades("root"), { created: true, cascade: true, parentId: "two" });
      assert.deepEqual(await cascades("free"), { created: true, cascade: false, parentId: "two" });
    },
  );

  suite.test(
    "what configuration says of an id tells whether it was created, also after it was deleted",
    async (place) => {
      const isCreated = async () => (await place.resolve("a", "api")).created;
      assert.equal(await isCreated(), false);
      await place.set({ level: "entity", entityId: "a", resource: "api" }, rpm);
      assert.equal(await isCreated(), false);
      await place.create({ id: "a" });
      assert.equal(await isCreated(), true);
      await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
      assert.equal(await isCreated(), false);
    },
  );

  suite.test("a parent of null makes the entity a root, and what cascaded no longer does", async (place) => {
    await place.create({ id: "root" });
    await place.create({ id: "a", parentId: "root", cascade: true });
    await update(place, "a", { parentId: null });
    assert.equal((await place.scope.entities.get("a"))?.parentId, undefined);
    assert.equal((await place.resolve("a", "api")).parentId, undefined);
    await samePaged((page) => place.scope.entities.children("root", page), []);
  });

  suite.test("a change that expects another version is refused, and tells the one there is", async (place) => {
    await place.create({ id: "a" });
    await update(place, "a", { name: "first" }, 1);
    assert.deepEqual(await update(place, "a", { name: "second" }, 1), { kind: "conflict", version: 2 });
    assert.equal((await place.scope.entities.get("a"))?.name, "first");
    assert.equal((await update(place, "a", { name: "third" }, 2)).kind, "updated");
    assert.deepEqual(await update(place, "nobody", { name: "x" }), { kind: "missing" });
  });

  suite.test("of many who change the same version at once, exactly one does", async (place) => {
    await place.create({ id: "a" });
    const replies = await Promise.all(["x", "y", "z", "w"].map((name) => update(place, "a", { name }, 1)));
    assert.equal(replies.filter(({ kind }) => kind === "updated").length, 1);
    assert.equal((await place.scope.entities.get("a"))?.version, 2);
  });

  suite.test("an entity with children is not deleted, and stays whole", async (place) => {
    await place.create({ id: "a" });
    await place.create({ id: "b", parentId: "a" });
    await place.take([claim("a", rpm, { rpm: 1 })], T0);
    assert.deepEqual(await remove(place, "a"), { kind: "children", childId: "b" });
    assert.equal(await place.level("a", "rpm", T0), 9_000);
    assert.deepEqual(await remove(place, "b"), { kind: "deleted" });
    assert.deepEqual(await remove(place, "a"), { kind: "deleted" });
    assert.deepEqual(await remove(place, "a"), { kind: "missing" });
  });

  suite.test("with an entity go its limits, buckets and usage, and nobody else's", async (place) => {
    for (const id of ["a", "ab"]) {
      await place.create({ id });
      await place.set({ level: "entityDefault", entityId: id }, rpm);
      await place.set({ level: "entity", entityId: id, resource: "api" }, rpm);
      await place.take([claim(id, rpm, { rpm: 1 }), claim(id, rpm, { rpm: 2 }, { resource: "b" })], T0);
    }
    await remove(place, "a");
    assert.equal(await place.scope.entities.get("a"), undefined);
    assert.equal((await place.resolve("a", "api")).source, "none");
    assert.equal(await place.state("a"), undefined);
    assert.equal(await place.state("a", "b"), undefined);
    assert.equal((await place.resolve("ab", "api")).source, "entity");
    assert.equal(await place.level("ab", "rpm", T0), 9_000);
    const query = { window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;
    const { items } = await place.scope.usage.query(query, { limit: 10 });
    assert.deepEqual(
      items.map(({ entityId, resource }) => [entityId, resource]),
      [
        ["ab", "api"],
        ["ab", "b"],
      ],
    );
  });

  suite.test("an entity deleted and created again starts anew", async (place) => {
    await place.create({ id: "a", name: "old" });
    await place.take([claim("a", rpm, { rpm: 10 })], T0);
    await remove(place, "a");
    const again = await place.create({ id: "a", name: "new" });
    assert.deepEqual(await place.scope.entities.get("a"), again);
    assert.equal(await place.grants(claim("a", rpm, { rpm: 10 }), T0), true);
  });

  suite.test("entities and children are listed in order of their ids, page by page", async (place) => {
    await place.create({ id: "root" });
    const children: Entity[] = [];
    for (const id of ["c", "a", "B", "b"]) children.push(await place.create({ id, parentId: "root" }));
    const grandchild = await place.create({ id: "aa", parentId: "a" });
    const byId = (list: readonly Entity[]) => list.toSorted((x, y) => (x.id < y.id ? -1 : 1));
    await samePaged((page) => place.scope.entities.children("root", page), byId(children));
    await samePaged((page) => place.scope.entities.children("a", page), [grandchild]);
    await samePaged((page) => place.scope.entities.children("c", page), []);
    const root = await place.scope.entities.get("root");
    assert.ok(root !== undefined);
    await samePaged((page) => place.scope.entities.list(page), byId([...children, grandchild, root]));
  });

  suite.test("nobody changes entities in a namespace that was deleted", async (place) => {
    const gone = await place.register("gone");
    await gone.create({ id: "a" });
    await place.store.namespaces.delete("gone", T0, place.event("namespace_deleted", "gone"), place.namespaceId);
    await assert.rejects(async () => create(gone, "b", undefined), NotFoundError);
    await assert.rejects(async () => update(gone, "a", { name: "x" }), NotFoundError);
    await assert.rejects(async () => remove(gone, "a"), NotFoundError);
  });
}

async function create(place: TestedNamespace, id: string, parentId: string | undefined): Promise<CreateReply> {
  const entity = newEntity(parentId === undefined ? { id } : { id, parentId }, T0);
  return place.scope.entities.create(entity, place.event("entity_created", id));
}

async function update(
  place: TestedNamespace,
  id: string,
  patch: EntityPatch,
  version?: number,
  nowMs: number = T0,
): Promise<UpdateReply> {
  return place.scope.entities.update(id, { patch, version, nowMs }, place.event("entity_updated", id));
}

async function remove(place: TestedNamespace, id: string) {
  return place.scope.entities.delete(id, place.event("entity_deleted", id));
}

async function chain(place: TestedNamespace, name: string, levels: number): Promise<void> {
  for (let i = 1; i <= levels; i++) {
    await place.create(i === 1 ? { id: `${name}${i}` } : { id: `${name}${i}`, parentId: `${name}${i - 1}` });
  }
}
