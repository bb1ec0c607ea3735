import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimiter } from "../../src/entry/index.ts";
import {
  documentOf,
  functionStatements,
  type PolicyDocument,
  type PolicyName,
  policyDocument,
} from "../../src/infra/policies.ts";
import { atDepth } from "../depth.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import type { Passage } from "../dynamodb/fault-proxy.ts";
import { type Access, allows, isAllowed as decides, type Principal, patternsFor } from "./policy-evaluator.ts";
import { methodsOf, PolicyGround } from "./policy-stories.ts";
import { accessesOf, INDEXES, TABLE } from "./recorded-calls.ts";
import { secondOpinion } from "./second-evaluator.ts";

const PLACE = { tableArn: TABLE, indexArns: INDEXES };
const NOBODY: Principal = { tags: {} };

/** Every decision that the tests of this file rest on. */
const decisions = new Map<
  string,
  { document: PolicyDocument; access: Access; principal: Principal; decided: boolean }
>();

function isAllowed(document: PolicyDocument, access: Access, principal: Principal): boolean {
  const decided = decides(document, access, principal);
  decisions.set(JSON.stringify([document, access, principal]), { document, access, principal, decided });
  return decided;
}

/** Every request that the policy does not allow, in words. */
function denied(document: PolicyDocument, passages: readonly Passage[], principal: Principal): readonly string[] {
  const missing = passages
    .flatMap(accessesOf)
    .filter((access) => !isAllowed(document, access, principal))
    .map(({ action, resource, keys }) => `${action} ${resource.replace(TABLE, "")} ${keys.join(" ")}`);
  return [...new Set(missing)];
}

/** Every action, resource and key pattern of a statement that no request needs. */
function unneeded(document: PolicyDocument, passages: readonly Passage[], principal: Principal): readonly string[] {
  const accesses = passages.flatMap(accessesOf);
  return document.Statement.flatMap((statement) => {
    const used = accesses.filter((access) => allows(statement, access, principal));
    const patterns = new Set(used.flatMap(({ keys }) => keys.flatMap((key) => patternsFor(statement, key, principal))));
    const keys = statement.Condition?.["ForAllValues:StringLike"]?.["dynamodb:LeadingKeys"] ?? [];
    const names = new Set(used.map(({ action }) => action));
    return [
      ...statement.Action.filter((action) => !names.has(action)),
      ...statement.Resource.filter(
        (resource) => !used.some((each) => (resource === TABLE) === (each.resource === TABLE)),
      ).map(String),
      ...[keys].flat().filter((pattern) => !patterns.has(pattern)),
    ].map((what) => `${statement.Sid}: ${what}`);
  });
}

await describeDynamo("least privilege", (dynamodb) => {
  test("what each kind of client really asks for is allowed, and nothing that none of them asks for", {
    timeout: 300_000,
  }, async (t) => {
    const ground = await PolicyGround.open(dynamodb, t);
    const tenant: Principal = { tags: { zael_namespace_id: ground.namespaceId } };
    const overseer = await ground.overseer();
    const acquirer = await ground.acquirer((passage) =>
      accessesOf(passage).every((access) => isAllowed(policyDocument("namespaceAcquire", PLACE), access, tenant)),
    );
    const reader = await ground.reader();
    const tenantAdministrator = await ground.tenantAdministrator();
    const administrator = await ground.administrator();
    const aggregator = await ground.aggregator();
    const provisioner = await ground.provisioner();
    const service = await ground.service();
    const methods = methodsOf(RateLimiter.prototype).filter((name) => !ground.called.has(name));
    // A table cannot answer synchronously, and the stories open the namespace that they are about.
    assert.deepEqual(methods, ["namespace", "tryAcquireSync"], "methods of a limiter that no story calls");
    const kinds: readonly (readonly [PolicyName, readonly (readonly Passage[])[], Principal])[] = [
      ["acquire", [acquirer], NOBODY],
      ["namespaceAcquire", [acquirer], tenant],
      ["read", [reader, overseer], NOBODY],
      ["namespaceRead", [reader], tenant],
      ["full", [acquirer, administrator, overseer], NOBODY],
      ["namespaceFull", [acquirer, tenantAdministrator, reader], tenant],
    ];
    const found = kinds.map(([name, clients, principal]) => {
      const document = policyDocument(name, PLACE);
      const passages = clients.flat();
      return { name, denied: denied(document, passages, principal), unneeded: unneeded(document, passages, principal) };
    });
    assert.deepEqual(
      found,
      kinds.map(([name]) => ({
        ...{ name, unneeded: UNNEEDED[name] ?? [] },
        denied: (WITHOUT[name] ?? []).map((line) => line.replace("NS", ground.namespaceId)),
      })),
    );
    const work = documentOf(functionStatements(PLACE));
    assert.deepEqual(denied(work, aggregator, NOBODY), []);
    assert.deepEqual(denied(work, provisioner, NOBODY), []);
    // The two functions have the same rights; between them they need all.
    assert.deepEqual(unneeded(work, [...aggregator, ...provisioner], NOBODY), []);
    for (const passages of [acquirer, reader, administrator, aggregator, provisioner]) {
      assert.ok(passages.length > 20, "the stories were told");
      for (const { operation } of passages) assert.ok(!/Scan|BatchWrite/.test(operation), operation);
    }
    const all = JSON.stringify(acquirer.map(({ input }) => input));
    assert.ok(all.includes("#USAGE#"), "an hour was closed");
    assert.ok(all.includes("#api#1"), "the bucket was split");
    // Stored leases are no buckets: a service that keeps them has all rights on its namespace, and those who only take cannot.
    assert.deepEqual(denied(policyDocument("namespaceFull", PLACE), service, tenant), []);
    assert.deepEqual(denied(policyDocument("full", PLACE), service, NOBODY), []);
    assert.ok(
      denied(policyDocument("acquire", PLACE), service, NOBODY).every((line) => /LEASE|IDEMPOTENCY/.test(line)),
    );
    // And the policies bite: whoever only takes cannot do what administrators do, nor tenants what is the registry's.
    assert.ok(denied(policyDocument("acquire", PLACE), administrator, NOBODY).length > 5);
    assert.ok(denied(policyDocument("read", PLACE), acquirer, NOBODY).length > 0);
    assert.ok(denied(policyDocument("namespaceFull", PLACE), administrator, tenant).length > 0);
    // A tenant's policy is another's only for the registry item that everybody reads.
    const other: Principal = { tags: { zael_namespace_id: "another-id" } };
    for (const name of ["namespaceAcquire", "namespaceRead", "namespaceFull"] as const) {
      const allowed = [acquirer, tenantAdministrator, reader]
        .flat()
        .flatMap(accessesOf)
        .filter((access) => isAllowed(policyDocument(name, PLACE), access, other));
      assert.deepEqual([...new Set(allowed.flatMap(({ keys }) => keys))], ["_/SYSTEM#"], name);
      assert.deepEqual(
        [...new Set(allowed.map(({ action }) => action))].filter(
          (action) => !/GetItem|ConditionCheckItem/.test(action),
        ),
        [],
        name,
      );
    }
  });
});

/**
 * What a policy grants that no recorded call needs, and why it does: a bucket's writes may be checks, by their port, though none is
 * today; whoever may read an item learns nothing more by checking a condition on it.
 */
const UNNEEDED: Partial<Record<PolicyName, readonly string[]>> = {
  acquire: ["TakeTokens: dynamodb:ConditionCheckItem"],
  namespaceAcquire: ["TakeTokens: dynamodb:ConditionCheckItem"],
};

/** What those who only take ask for and do without: usage, by which `explain` says that nothing was ever charged to a limit. */
const USAGE = ["dynamodb:Query /index/GSI4 NS", "dynamodb:Query  NS/BUCKET#planned#api#0"];
const WITHOUT: Partial<Record<PolicyName, readonly string[]>> = { acquire: USAGE, namespaceAcquire: USAGE };

const TENANT: Principal = { tags: { zael_namespace_id: "abc" } };

test("Y10: a tenant touches neither another namespace nor the registry, but for reading its items one by one", () => {
  const on = (name: PolicyName, action: string, ...keys: string[]) =>
    isAllowed(policyDocument(name, PLACE), { action: `dynamodb:${action}`, resource: TABLE, keys }, TENANT);
  for (const name of ["namespaceAcquire", "namespaceFull", "namespaceRead"] as const) {
    for (const key of [
      "abd/BUCKET#k#r#0",
      "ab/SYSTEM#",
      "abcd/ENTITY#k",
      "_/AUDIT#x",
      "_/SYSTEM#x",
      "abc",
      "x/abc/BUCKET#",
    ]) {
      for (const action of ["GetItem", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"]) {
        if (key === "abc") continue;
        assert.equal(on(name, action, key), false, `${name} ${action} ${key}`);
      }
    }
    assert.equal(on(name, "GetItem", "_/SYSTEM#"), true);
    assert.equal(on(name, "BatchGetItem", "abc/SYSTEM#", "_/SYSTEM#"), true, "both keys of the first contact");
    assert.equal(on(name, "BatchGetItem", "abc/SYSTEM#", "abd/SYSTEM#"), false, "one that is another's denies all");
    for (const action of ["PutItem", "UpdateItem", "DeleteItem", "Query"]) {
      assert.equal(on(name, action, "_/SYSTEM#"), false, `${name} ${action} of the registry (Y10)`);
    }
    assert.equal(on(name, "GetItem"), false, "a request without keys is not one on all of them");
    for (const action of ["Scan", "BatchWriteItem", "DeleteTable", "UpdateTable", "PartiQLSelect"]) {
      assert.equal(on(name, action, "abc/BUCKET#k#r#0"), false, action);
    }
  }
  // Without the tag nothing is anybody's.
  const untagged = (name: PolicyName) =>
    isAllowed(
      policyDocument(name, PLACE),
      { action: "dynamodb:UpdateItem", resource: TABLE, keys: ["/BUCKET#k#r#0"] },
      NOBODY,
    );
  assert.equal(untagged("namespaceAcquire"), false);
  assert.equal(untagged("namespaceFull"), false);
});

test("who acquires writes buckets, their sheets and operations, and neither limits nor entities nor audit events", () => {
  for (const [name, principal] of [
    ["acquire", NOBODY],
    ["namespaceAcquire", TENANT],
  ] as const) {
    const may = (action: string, key: string) =>
      isAllowed(policyDocument(name, PLACE), { action: `dynamodb:${action}`, resource: TABLE, keys: [key] }, principal);
    for (const action of ["PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"]) {
      assert.equal(may(action, "abc/BUCKET#k#r#0"), true);
      for (const key of ["abc/ENTITY#k", "abc/PLAN#p", "abc/RESOURCE#r", "abc/SYSTEM#", "abc/AUDIT#k", "_/SYSTEM#"]) {
        assert.equal(may(action, key), false, `${name} ${action} ${key}`);
      }
    }
    assert.equal(may("Query", "abc/BUCKET#k#r#0"), false);
    // What was refused is counted by whoever refuses it, and read by others.
    for (const action of ["UpdateItem", "DeleteItem", "GetItem", "Query"])
      assert.equal(may(action, "abc/REFUSED#0"), false);
    assert.equal(may("PutItem", "abc/REFUSED#0"), true);
    assert.equal(may("GetItem", "abc/AUDIT#k"), false);
  }
});

/** The table of the design, row by row: policy, actions, where, keys. */
const DESIGN: readonly (readonly [PolicyName, string, "table" | "both", readonly string[] | "any"])[] = [
  [
    "acquire",
    "GetItem BatchGetItem",
    "table",
    ["*/BUCKET#*", "*/ENTITY#*", "*/PLAN#*", "*/RESOURCE#*", "*/SYSTEM#", "_/SYSTEM#"],
  ],
  ["acquire", "PutItem UpdateItem DeleteItem ConditionCheckItem", "table", ["*/BUCKET#*"]],
  ["acquire", "PutItem", "table", ["*/REFUSED#*"]],
  ["full", "GetItem BatchGetItem Query PutItem UpdateItem DeleteItem ConditionCheckItem", "both", "any"],
  ["full", "DescribeTable", "table", "any"],
  ["read", "GetItem BatchGetItem Query", "both", "any"],
  ["read", "DescribeTable", "table", "any"],
  [
    "namespaceAcquire",
    "GetItem BatchGetItem",
    "table",
    ["{ns}/BUCKET#*", "{ns}/ENTITY#*", "{ns}/PLAN#*", "{ns}/RESOURCE#*", "{ns}/SYSTEM#", "_/SYSTEM#"],
  ],
  ["namespaceAcquire", "PutItem UpdateItem DeleteItem ConditionCheckItem", "table", ["{ns}/BUCKET#*"]],
  ["namespaceAcquire", "PutItem", "table", ["{ns}/REFUSED#*"]],
  ["namespaceRead", "GetItem BatchGetItem", "table", ["{ns}/*", "_/SYSTEM#"]],
  ["namespaceRead", "Query", "both", ["{ns}/*", "{ns}"]],
  ["namespaceFull", "GetItem BatchGetItem", "table", ["{ns}/*", "_/SYSTEM#"]],
  ["namespaceFull", "Query", "both", ["{ns}/*", "{ns}"]],
  ["namespaceFull", "PutItem UpdateItem DeleteItem", "table", ["{ns}/*"]],
  ["namespaceFull", "ConditionCheckItem", "table", ["{ns}/*", "_/SYSTEM#"]],
];

test("the policies are those of the table, row by row", () => {
  const tag = "${" + "aws:PrincipalTag/zael_namespace_id}";
  for (const name of new Set(DESIGN.map(([each]) => each))) {
    const rows = DESIGN.filter(([each]) => each === name);
    const statements = policyDocument(name, PLACE).Statement.map(({ Action, Resource, Condition, Effect }) => {
      assert.equal(Effect, "Allow");
      return { Action: [...Action].sort(), Resource, Condition };
    });
    assert.deepEqual(
      statements,
      rows.map(([, actions, where, keys]) => ({
        Action: actions
          .split(" ")
          .map((action) => `dynamodb:${action}`)
          .sort(),
        Resource: where === "table" ? [TABLE] : [TABLE, INDEXES],
        Condition:
          keys === "any"
            ? undefined
            : {
                "ForAllValues:StringLike": { "dynamodb:LeadingKeys": keys.map((key) => key.replace("{ns}", tag)) },
                Null: { "dynamodb:LeadingKeys": "false" },
              },
      })),
      name,
    );
  }
});

await describeDynamo("decisions about calls of a table", () => {
  test("a second evaluator of IAM's rules comes to the same decisions", {
    timeout: 300_000,
  }, async () => {
    const seen = { allowed: 0, denied: 0 };
    const otherwise: string[] = [];
    const looked = [...decisions.values()].filter((_, i) => i % atDepth(8, 1) === 0);
    for (const { document, access, principal, decided } of looked) {
      const second = await secondOpinion(document, access, principal);
      seen[second ? "allowed" : "denied"] += 1;
      if (second !== decided) {
        const { action, resource, keys } = access;
        otherwise.push(
          `${action} ${resource} ${keys.join(" ")} by ${JSON.stringify(principal.tags)}: ${second}, not ${decided}`,
        );
      }
    }
    assert.deepEqual(otherwise, []);
    const least = atDepth(20, 100);
    assert.ok(seen.allowed > least && seen.denied > least, JSON.stringify(seen));
  });
});
