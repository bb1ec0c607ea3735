import assert from "node:assert/strict";
import type { Namespace } from "../../src/domain/config/namespace.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { allPages, claim, type Suite, samePaged, T0, type TestedNamespace } from "./contract-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];

/** Tenants of one store: apart from each other, hidden before they are removed. */
export function namespaceContract(suite: Suite): void {
  suite.test("two namespaces share nothing but the store", async (place) => {
    const tenant = await place.register("tenant");
    await place.create({ id: "a" });
    await place.set({ level: "system" }, rpm);
    await place.take([claim("a", rpm, { rpm: 10 })], T0);
    assert.equal(await tenant.scope.entities.get("a"), undefined);
    assert.equal((await tenant.resolve("a", "api")).source, "none");
    assert.equal(await tenant.grants(claim("a", rpm, { rpm: 10 }), T0), true);
    assert.deepEqual((await tenant.scope.audit.list({}, { limit: 10 })).items, []);
    assert.equal((await tenant.scope.buckets.listByResource("api", { limit: 10 })).items.length, 1);
  });

  suite.test("registering a name again answers the namespace there is", async (place) => {
    const first = await register(place, "tenant", "id-1");
    const second = await register(place, "tenant", "id-2");
    assert.equal(first.id, "id-1");
    assert.deepEqual(second, first);
    assert.deepEqual(await place.store.namespaces.get("tenant"), first);
    assert.equal(await place.store.namespaces.get("nobody"), undefined);
  });

  suite.test("of two who register a name at once, both hear of the same namespace", async (place) => {
    const answers = await Promise.all(["id-1", "id-2", "id-3"].map((id) => register(place, "tenant", id)));
    assert.equal(new Set(answers.map(({ id }) => id)).size, 1);
    assert.equal((await allPages((page) => place.store.namespaces.list(page), 10)).length, 2);
  });

  suite.test("a deleted namespace is hidden with all its data, and comes back whole", async (place) => {
    const tenant = await place.register("tenant");
    await tenant.create({ id: "a" });
    await tenant.set({ level: "system" }, rpm);
    await tenant.take([claim("a", rpm, { rpm: 4 })], T0);
    const deleted = await remove(place, "tenant");
    assert.equal(deleted?.status, "deleted");
    assert.equal(deleted.deletedAtMs, T0 + 1);
    assert.equal(await place.store.namespaces.get("tenant"), undefined);
    await samePaged((page) => place.store.namespaces.listOrphans(page), [deleted]);
    assert.equal(await remove(place, "tenant"), undefined);

    const reply = await recover(place, tenant.namespaceId);
    const namespace = await place.store.namespaces.get("tenant");
    assert.deepEqual(reply, { kind: "recovered", namespace });
    assert.equal(namespace?.status, "active");
    assert.equal(namespace.deletedAtMs, undefined);
    await samePaged((page) => place.store.namespaces.listOrphans(page), []);
    assert.equal(await tenant.level("a", "rpm", T0), 6_000);
    assert.equal((await tenant.resolve("a", "api")).source, "system");
  });

  suite.test("a name can be used again after its namespace was deleted, and starts empty", async (place) => {
    const first = await place.register("tenant");
    await first.take([claim("a", rpm, { rpm: 10 })], T0);
    await remove(place, "tenant");
    const second = await register(place, "tenant", "id-2");
    assert.equal(second.id, "id-2");
    assert.equal((await place.store.scope("id-2").buckets.listByResource("api", { limit: 10 })).items.length, 0);
    assert.deepEqual(await recover(place, first.namespaceId), { kind: "nameTaken", name: "tenant" });
  });

  suite.test("only what was deleted can be recovered or purged", async (place) => {
    const tenant = await place.register("tenant");
    assert.deepEqual(await recover(place, tenant.namespaceId), { kind: "notDeleted", status: "active" });
    assert.deepEqual(await recover(place, "nobody"), { kind: "missing" });
    assert.deepEqual(await purge(place, tenant.namespaceId), { kind: "active", name: "tenant" });
    assert.deepEqual(await purge(place, "nobody"), { kind: "missing" });
  });

  suite.test("a purge removes everything of its namespace and nothing of others", async (place) => {
    const tenant = await filled(place, "tenant");
    const other = await filled(place, "other");
    await remove(place, "tenant");
    const progress: number[] = [];
    const reply = await purge(place, tenant.namespaceId, (records) => progress.push(records));
    assert.equal(reply.kind, "purged");
    assert.ok(reply.records >= 4, `${reply.records} records`);
    assert.equal(progress.at(-1), reply.records);
    assert.deepEqual(
      progress,
      progress.toSorted((x, y) => x - y),
    );
    assert.equal(await tenant.state("a"), undefined);
    assert.equal(await tenant.scope.entities.get("a"), undefined);
    assert.equal(await tenant.scope.config.get({ level: "system" }), undefined);
    assert.deepEqual((await tenant.scope.audit.list({}, { limit: 10 })).items, []);
    await samePaged((page) => place.store.namespaces.listOrphans(page), []);
    assert.deepEqual(await recover(place, tenant.namespaceId), { kind: "missing" });
    assert.deepEqual(await purge(place, tenant.namespaceId), { kind: "missing" });
    assert.equal(await other.level("a", "rpm", T0), 9_000);
    assert.equal((await other.resolve("a", "api")).source, "system");
  });

  suite.test(
    "a purge that was cut off is finished by the next, and what it began cannot be recovered half",
    async (place) => {
      const tenant = await filled(place, "tenant");
      await remove(place, "tenant");
      const cutOff = new Error("cut off");
      await assert.rejects(
        async () =>
          purge(place, tenant.namespaceId, () => {
            throw cutOff;
          }),
        cutOff,
      );
      const recovered = await recover(place, tenant.namespaceId);
      assert.notEqual(recovered.kind, "recovered");
      if (recovered.kind !== "missing") assert.equal((await purge(place, tenant.namespaceId)).kind, "purged");
      assert.equal(await tenant.state("a"), undefined);
      assert.equal(await tenant.scope.entities.get("a"), undefined);
      await samePaged((page) => place.store.namespaces.listOrphans(page), []);
    },
  );

  suite.test("namespaces are listed by name, and deleted ones by id", async (place) => {
    const names = ["default"];
    for (const name of ["c", "a", "b"]) {
      await register(place, name, `id-${name}`);
      names.push(name);
    }
    const list = async (page: { limit: number; cursor?: string }) => {
      const { items, ...rest } = await place.store.namespaces.list(page);
      return { ...rest, items: items.map(({ name }) => name) };
    };
    await samePaged(list, names.toSorted());
    const deleted: Namespace[] = [];
    for (const name of ["b", "c", "a"]) deleted.push((await remove(place, name)) as Namespace);
    await samePaged(list, ["default"]);
    await samePaged(
      (page) => place.store.namespaces.listOrphans(page),
      deleted.toSorted((x, y) => (x.id < y.id ? -1 : 1)),
    );
  });

  suite.test("changes of namespaces are told in the audit log of whoever made them", async (place) => {
    const tenant = await place.register("tenant");
    await remove(place, "tenant");
    await recover(place, tenant.namespaceId);
    await remove(place, "tenant");
    await purge(place, tenant.namespaceId);
    const { items } = await place.scope.audit.list({}, { limit: 10 });
    assert.deepEqual(
      items.map(({ action }) => action),
      ["namespace_purged", "namespace_deleted", "namespace_recovered", "namespace_deleted", "namespace_registered"],
    );
  });
}

async function register(place: TestedNamespace, name: string, id: string): Promise<Namespace> {
  const event = place.event("namespace_registered", `$NAMESPACE:${name}`);
  return place.store.namespaces.register({ id, name, status: "active", createdAtMs: T0 }, event, place.namespaceId);
}

async function remove(place: TestedNamespace, name: string) {
  const event = place.event("namespace_deleted", `$NAMESPACE:${name}`);
  return place.store.namespaces.delete(name, T0 + 1, event, place.namespaceId);
}

async function recover(place: TestedNamespace, id: string) {
  return place.store.namespaces.recover(id, place.event("namespace_recovered", id), place.namespaceId);
}

async function purge(place: TestedNamespace, id: string, onProgress: (recordsDeleted: number) => void = () => {}) {
  return place.store.namespaces.purge(id, place.event("namespace_purged", id), place.namespaceId, onProgress);
}

async function filled(place: TestedNamespace, name: string): Promise<TestedNamespace> {
  const tenant = await place.register(name);
  await tenant.create({ id: "a" });
  await tenant.set({ level: "system" }, rpm);
  await tenant.take([claim("a", rpm, { rpm: 1 })], T0);
  return tenant;
}
