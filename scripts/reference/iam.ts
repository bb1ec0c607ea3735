import { NAMESPACE_TAG, type PolicyName, policyDocument, type Statement } from "../../src/infra/policies.ts";
import { POLICIES } from "../../src/infra/stack-names.ts";
import { template } from "../../src/infra/template.ts";
import { code, table } from "./markdown.ts";

/** docs/reference/iam.md, from the policies that a stack has. */
export function iamReference(): string {
  const parts = [
    HEAD,
    table(
      ["policy", "in a stack", "for"],
      CLIENTS.map(([name, whom]) => [
        `[${code(name)}](#${name.toLowerCase()})`,
        code(`STACK${POLICIES[name]}-REGION`),
        whom,
      ]),
    ),
  ];
  parts.push(TENANTS);
  for (const [name, , text] of CLIENTS)
    parts.push(`### ${name}`, text, statements(policyDocument(name, PLACE).Statement));
  parts.push("### A key of your own", KEY, statements(keyStatements()));
  parts.push(BY_HAND, "## The functions", FUNCTIONS);
  for (const [id, title] of ROLES) parts.push(`### ${title}`, statements(roleStatements(id)));
  parts.push(READERS);
  return `${parts.join("\n\n")}\n`;
}

const PLACE = { tableArn: "the table", indexArns: "its indexes" };

const CLIENTS: readonly (readonly [PolicyName, string, string])[] = [
  [
    "acquire",
    "services that take tokens",
    "Takes, settles and gives back in every namespace. It changes no limits, no entities and no audit events, and cannot store leases. It does not read " +
      "usage either: `explain` tries, is refused, and leaves `neverCharged` out.",
  ],
  [
    "full",
    "administrators, the command line, the HTTP service",
    "Everything that the package does with items. No `Scan`, no `BatchWriteItem`, nothing on the table itself.",
  ],
  ["read", "dashboards, support", "Reads everything."],
  ["namespaceAcquire", "tenants that take tokens", "The same as `acquire`, in one namespace."],
  [
    "namespaceFull",
    "tenants that manage their limits; a service for one namespace",
    "The same as `full`, in one namespace. It writes nothing of the registry, so that no tenant can lock out others.",
  ],
  [
    "namespaceRead",
    "tenants that read",
    "The same as `read`, in one namespace. It reads entries of the registry one by one and cannot list them.",
  ],
];

const ROLES = [
  ["AggregatorRole", "Aggregator"],
  ["ProvisionerRole", "Provisioner"],
] as const;

function keyStatements(): readonly Statement[] {
  const own = policyDocument("acquire", { ...PLACE, keyArn: "the key" }).Statement;
  return own.filter(({ Resource }) => Resource.includes("the key"));
}

function roleStatements(id: (typeof ROLES)[number][0]): readonly Statement[] {
  const { Properties } = template({ name: "limits", tracing: true }).Resources[id] ?? {};
  const [{ PolicyDocument }] = (Properties as { Policies: [{ PolicyDocument: { Statement: readonly Statement[] } }] })
    .Policies;
  return PolicyDocument.Statement;
}

function statements(all: readonly Statement[]): string {
  const rows = all.map(({ Sid = "", Action, Resource, Condition }) => [
    code(Sid),
    Action.map(code).join(", "),
    Resource.map(placeText).join(", "),
    Object.entries(Condition ?? {})
      .flatMap(([, values]) => Object.entries(values))
      .filter(([, value]) => value !== "false")
      .map(
        ([name, value]) =>
          `${code(name)} like ${[value]
            .flat()
            .map((each) => code(each.replace(NAMESPACE_TAG, "NS")))
            .join(", ")}`,
      )
      .join("; ") || "any",
  ]);
  return table(["statement", "actions", "on", "where"], rows);
}

/** What an ARN of the template leads to. */
function placeText(resource: unknown): string {
  if (typeof resource === "string") return resource === "*" ? "everything" : resource;
  const text = JSON.stringify(resource);
  const found = PLACES.find(([part]) => text.includes(part));
  if (found === undefined) throw new Error(`scripts/reference/iam.ts has no words for ${text}.`);
  return found[1];
}

const PLACES: readonly (readonly [string, string])[] = [
  ["/index/", "its indexes"],
  ["StreamArn", "the stream of the table"],
  ["AuditArchiveBucket", "`audit/*` of the archive's bucket"],
  ["AggregatorDLQ", "its queue"],
  ["LogGroup", "its log group"],
  ["RateLimitsTable", "the table"],
  ["Table", "the table"],
];

const HEAD = `# Rights on AWS

The rights that each kind of client and each function needs. The stack has a policy for each; this page is made from the same policies by
\`node scripts/iam-reference.ts\`. Nothing else is needed: tests hold the policies against every request that clients make.

## Clients`;

const TENANTS = `A policy whose name begins with \`namespace\` applies to one namespace: the one whose id is the tag \`zael_namespace_id\` of the caller's
role or user. Give the id, not the name; \`zae-limiter namespace show NAME\` prints it. \`policyDocument(name, place, namespaceId)\` writes one for a fixed id.

Below, a condition on \`dynamodb:LeadingKeys\` bounds the partition keys of a request; a request without keys is not allowed by it.
\`NS\` stands for the id of the namespace, or \`\${aws:PrincipalTag/zael_namespace_id}\`.`;

const KEY = `If the table is encrypted with a KMS key of your own, every policy above also has this statement, and the functions have the same actions:`;

const BY_HAND = `### Without a stack

\`policyDocument\` of [\`zae-limiter/infra\`](library-infra.md#policydocument) writes the same policies for a table that was made by other means:

\`\`\`ts
import { policyDocument } from "zae-limiter/infra";

const tableArn = "arn:aws:dynamodb:eu-west-1:123456789012:table/limits";
console.log(JSON.stringify(policyDocument("acquire", { tableArn, indexArns: \`\${tableArn}/index/*\` }), null, 2));
\`\`\`

| call | further actions on the table |
| --- | --- |
| \`RateLimiter.open\` with \`sharedTable\` | \`dynamodb:DescribeTable\` |
| \`createTable\` | \`dynamodb:CreateTable\`, \`dynamodb:DescribeTable\`, \`dynamodb:UpdateTimeToLive\`, \`dynamodb:DescribeTimeToLive\`; with \`tags\` also \`dynamodb:TagResource\` |
| \`prepareTable\` | \`dynamodb:DescribeTable\` |
| \`zae-limiter init\` on a table that exists | \`dynamodb:DescribeTable\`, \`dynamodb:DescribeTimeToLive\` |
| \`deleteTable\` | \`dynamodb:DeleteTable\`, \`dynamodb:DescribeTable\` |
| \`listTables\` | \`dynamodb:ListTables\` |
| \`zae-limiter deploy\`, \`update\`, \`delete\` | rights on CloudFormation, DynamoDB, Lambda, IAM, CloudWatch, Logs, SQS, S3 and EventBridge |`;

const FUNCTIONS = `Roles of the stack's functions. \`Tracing\` is there with \`--tracing\` only. A principal that may invoke the provisioner can change the
limits of every namespace: grant \`lambda:InvokeFunction\` on it as you would grant \`full\`.`;

const READERS = `### Runner and readers of the archive

A runner (\`zae-limiter aggregate\`, \`follow\`) needs the rights of the aggregator on table, stream and archive. Reading the archive (\`readArchive\`,
\`zae-limiter audit list --archive\`, \`audit verify\`) needs \`s3:ListBucket\` and \`s3:GetObject\` on its bucket; \`audit verify\` also reads the table, as the policy \`read\` allows.`;
