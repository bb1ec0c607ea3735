import { runSimulation } from "@cloud-copilot/iam-simulate";
import type { PolicyDocument } from "../../src/infra/policies.ts";
import type { Access, Principal } from "./policy-evaluator.ts";

// Somebody else's reading of IAM's rules, with IAM's own list of which keys a request of each action has: our evaluator is held against it.

const ACCOUNT = "123456789012";

/** What it decides; throws where it takes the policy or the request for impossible. */
export async function secondOpinion(
  policy: PolicyDocument,
  { action, resource, keys }: Access,
  { tags }: Principal,
): Promise<boolean> {
  const answer = await runSimulation(
    {
      request: {
        principal: `arn:aws:iam::${ACCOUNT}:role/tenant`,
        action,
        resource: { resource, accountId: ACCOUNT },
        contextVariables: {
          ...(keys.length === 0 ? {} : { "dynamodb:LeadingKeys": [...keys] }),
          ...Object.fromEntries(Object.entries(tags).map(([name, value]) => [`aws:PrincipalTag/${name}`, value])),
        },
      },
      identityPolicies: [{ name: "own", policy }],
      ...{ serviceControlPolicies: [], resourceControlPolicies: [] },
    },
    {},
  );
  if (answer.resultType === "error") throw new Error(`${action} ${resource}: ${JSON.stringify(answer.errors)}`);
  return answer.overallResult === "Allowed";
}
