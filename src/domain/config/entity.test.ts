import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { ValidationError } from "../names/errors.ts";
import { checkPatch, type EntityPatch, type Hierarchy, newEntity, parentProblem, patched } from "./entity.ts";

function refused(make: () => unknown, code: string, why: RegExp): void {
  assert.throws(make, (error) => {
    assert.ok(error instanceof ValidationError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, why);
    return true;
  });
}

/** A hierarchy as a store would show it: who hangs below whom. */
function hierarchy(parents: Readonly<Record<string, string | undefined>>): Hierarchy {
  return {
    parentOf: (id) => {
      if (!Object.hasOwn(parents, id)) return undefined;
      const parentId = parents[id];
      return parentId === undefined ? {} : { parentId };
    },
    childrenOf: (id) => Object.keys(parents).filter((child) => parents[child] === id),
  };
}

/** a1 is the root, each next one hangs below the one before. */
function chain(letter: string, length: number): Record<string, string | undefined> {
  return Object.fromEntries(
    Array.from({ length }, (_, i) => [`${letter}${i + 1}`, i === 0 ? undefined : `${letter}${i}`]),
  );
}

test("a new entity is its own root, does not cascade and is called by its id", () => {
  assert.deepEqual(newEntity({ id: "key-1" }, 5), {
    id: "key-1",
    name: "key-1",
    cascade: false,
    metadata: {},
    version: 1,
    createdAtMs: 5,
    updatedAtMs: 5,
  });
  assert.equal(newEntity({ id: "key-1", name: "" }, 5).name, "key-1");
});

test("a new entity shares no metadata with the object it was made from", () => {
  const metadata: Record<string, string> = { team: "a" };
  const entity = newEntity({ id: "key-1", parentId: "proj-1", cascade: true, metadata }, 5);
  metadata.team = "b";
  assert.deepEqual(entity.metadata, { team: "a" });
  assert.equal(entity.parentId, "proj-1");
  assert.equal(entity.cascade, true);
});

test("an entity with a wrong field is refused with the field's value", () => {
  refused(() => newEntity(undefined as never, 5), "entity_id_invalid", /undefined/);
  refused(() => newEntity({ id: "a b" }, 5), "entity_id_invalid", /"a b"/);
  refused(
    () => newEntity({ id: "a", parent: "b" } as never, 5),
    "option_unknown",
    /"parent"; did you mean `parentId`\?/,
  );
  refused(() => newEntity({ id: "a", parentId: "b c" }, 5), "entity_id_invalid", /"b c"/);
  refused(() => newEntity({ id: "a", cascade: "yes" as never }, 5), "cascade_invalid", /"yes"/);
  refused(() => newEntity({ id: "a", name: 7 as never }, 5), "name_invalid", /7/);
  refused(() => newEntity({ id: "a", name: "x".repeat(257) }, 5), "name_invalid", /at most 256/);
  for (const metadata of [{ n: 1 }, { n: 1n }, ["x"], "x", null]) {
    refused(() => newEntity({ id: "a", metadata: metadata as never }, 5), "metadata_invalid", /values are strings/);
  }
});

test("a change keeps what it does not name, counts the version and moves the time of change only", () => {
  const entity = newEntity({ id: "a", name: "A", parentId: "p", cascade: true, metadata: { x: "1" } }, 5);
  assert.deepEqual(patched(entity, {}, 9), { ...entity, version: 2, updatedAtMs: 9 });
  assert.deepEqual(patched(entity, { name: "B", metadata: {} }, 9), {
    ...entity,
    name: "B",
    metadata: {},
    version: 2,
    updatedAtMs: 9,
  });
});

test("a parent that is named is charged, unless it is said that it is not", () => {
  assert.equal(newEntity({ id: "a" }, 5).cascade, false);
  assert.equal(newEntity({ id: "a", parentId: null as never }, 5).cascade, false);
  assert.equal(newEntity({ id: "a", parentId: "p" }, 5).cascade, true);
  assert.equal(newEntity({ id: "a", parentId: "p", cascade: false }, 5).cascade, false);
  const root = newEntity({ id: "a" }, 5);
  assert.equal(patched(root, { parentId: "p" }, 9).cascade, true);
  assert.equal(patched(root, { parentId: "p", cascade: false }, 9).cascade, false);
  assert.equal(patched(root, { name: "A" }, 9).cascade, false);
  // Who belongs to a parent without being charged to it stays so wherever it is moved.
  const free = newEntity({ id: "a", parentId: "p", cascade: false }, 5);
  assert.equal(patched(free, { parentId: "q" }, 9).cascade, false);
  assert.equal(patched(free, { parentId: null }, 9).cascade, false);
});

test("a parent of null makes the entity a root, undefined leaves it where it is", () => {
  const entity = newEntity({ id: "a", parentId: "p" }, 5);
  assert.equal(Object.hasOwn(patched(entity, { parentId: null }, 9), "parentId"), false);
  assert.equal(patched(entity, { parentId: undefined } as never, 9).parentId, "p");
  assert.equal(patched(entity, { parentId: "q" }, 9).parentId, "q");
});

test("a change of something that cannot be changed is refused, not ignored", () => {
  const check = (patch: unknown) => () => checkPatch("a", patch as EntityPatch);
  refused(check({ id: "b" }), "patch_invalid", /"id" of a cannot be changed; known: name, parentId/);
  refused(check({ nmae: "b" }), "patch_invalid", /"nmae" of a cannot be changed; did you mean `name`\?/);
  refused(check(["name"]), "patch_invalid", /give an object/);
  for (const patch of [null, undefined, 5]) refused(check(patch), "patch_invalid", /give an object/);
  refused(check({ cascade: 1 }), "cascade_invalid", /1/);
  refused(check({ metadata: { n: 1 } }), "metadata_invalid", /strings/);
  refused(check({ name: 5 }), "name_invalid", /5/);
  for (const parentId of ["a b", "", 7, false]) refused(check({ parentId }), "entity_id_invalid", /entity id/);
  assert.doesNotThrow(check({ parentId: null, name: "n", cascade: true, metadata: {} }));
});

test("nobody is their own parent", () => {
  assert.deepEqual(parentProblem("a", "a", hierarchy({ a: undefined })), { kind: "cycle", path: ["a", "a"] });
  assert.deepEqual(parentProblem("new", "new", hierarchy({})), { kind: "cycle", path: ["new", "new"] });
});

test("a grandchild cannot become the parent of its grandparent", () => {
  const family = hierarchy({ a: undefined, b: "a", c: "b" });
  assert.deepEqual(parentProblem("a", "c", family), { kind: "cycle", path: ["a", "c", "b", "a"] });
  assert.equal(parentProblem("c", "a", family), undefined);
});

test("a parent must exist", () => {
  assert.deepEqual(parentProblem("a", "nobody", hierarchy({ a: undefined })), {
    kind: "parentMissing",
    parentId: "nobody",
  });
});

test("eight levels fit, the ninth does not", () => {
  assert.equal(parentProblem("new", "a7", hierarchy(chain("a", 7))), undefined);
  assert.deepEqual(parentProblem("new", "a8", hierarchy(chain("a", 8))), { kind: "tooDeep", levels: 9 });
});

test("a subtree that is moved brings its depth along", () => {
  const two = hierarchy({ ...chain("a", 4), ...chain("b", 5), b5x: "b4", b2x: "b1" });
  // b1 has four levels below it; four above it make 9.
  assert.deepEqual(parentProblem("b1", "a4", two), { kind: "tooDeep", levels: 9 });
  assert.equal(parentProblem("b1", "a3", two), undefined);
  assert.equal(parentProblem("b2", "a4", two), undefined);
});

test("a cycle that somebody else left in the store ends the search instead of hanging it", () => {
  const broken = hierarchy({ a: undefined, x: "y", y: "x" });
  assert.equal(parentProblem("a", "x", broken)?.kind, "tooDeep");
  assert.equal(parentProblem("x", "a", broken)?.kind, "tooDeep");
});

test("whatever is let through leaves a forest of at most eight levels", () => {
  const moves = fc.array(fc.tuple(fc.nat({ max: 13 }), fc.nat({ max: 13 })), { maxLength: 60, size: "max" });
  let allowed = 0;
  fc.assert(
    fc.property(moves, (pairs) => {
      const parents: Record<string, string | undefined> = {};
      for (let i = 0; i < 14; i++) parents[`e${i}`] = undefined;
      for (const [child, parent] of pairs) {
        const [id, parentId] = [`e${child}`, `e${parent}`];
        const forest = { ...parents, [id]: parentId };
        const problem = parentProblem(id, parentId, hierarchy(parents));
        assert.equal(
          problem === undefined,
          deepest(forest) <= 8,
          `${id} below ${parentId}: ${JSON.stringify(problem)}`,
        );
        if (problem !== undefined) continue;
        allowed++;
        parents[id] = parentId;
      }
    }),
    { numRuns: 150 },
  );
  assert.ok(allowed > 500, `only ${allowed} moves were allowed`);
});

/** Levels of the deepest entity; Infinity in a cycle. */
function deepest(parents: Readonly<Record<string, string | undefined>>): number {
  return Math.max(
    ...Object.keys(parents).map((id) => {
      let levels = 0;
      for (let at: string | undefined = id; at !== undefined; at = parents[at]) {
        if (++levels > 20) return Number.POSITIVE_INFINITY;
      }
      return levels;
    }),
  );
}
