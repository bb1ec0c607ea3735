import { createHash } from "node:crypto";

/** Which resource of which stack. */
interface ResourceIdentity {
  readonly StackId: string;
  readonly LogicalResourceId: string;
}

/**
 * The physical id of a resource, which is the owner of what it declares. It is made of the stack, the logical id and the request
 * that made it: a request that comes twice makes the same, and a resource that is made again is not taken for the first.
 */
export function physicalId(identity: ResourceIdentity, requestId: string): string {
  return `${beginning(identity)}${digest(requestId, 12)}`;
}

/** Whether an id was made for this resource, by whichever request. Nobody else's id may delete anything in its name. */
export function isIdOf(identity: ResourceIdentity, id: string): boolean {
  const begin = beginning(identity);
  return id.startsWith(begin) && /^[0-9a-f]{12}$/.test(id.slice(begin.length));
}

function beginning({ StackId, LogicalResourceId }: ResourceIdentity): string {
  const [, stack = StackId] = /:stack\/([^/]+)\//.exec(StackId) ?? [];
  // The names are for people; what tells resources apart is the digest.
  const names = [stack, LogicalResourceId].map((name) => name.replace(/[^a-zA-Z0-9_.-]/g, "-").slice(0, 60));
  return `cfn:${names.join(":")}:${digest(JSON.stringify([StackId, LogicalResourceId]), 16)}:`;
}

function digest(text: string, length: number): string {
  return createHash("sha256").update(text).digest("hex").slice(0, length);
}
