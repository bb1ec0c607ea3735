/**
 * Makes the key of a client from its address: an IPv4 address, or the /64 network of IPv6, which one customer has. Undefined without an
 * address that can be read: all such clients would share one bucket.
 */
export function keyOfAddress(address: string | null | undefined): string | undefined {
  if (typeof address !== "string") return undefined;
  if (/^\d{1,3}(\.\d{1,3}){3}$/.test(address)) return `ip-${address}`;
  const groups = groupsOf(address);
  if (groups === undefined) return undefined;
  const mapped = /^0,0,0,0,0,ffff,(\w+),(\w+)$/.exec(groups.join());
  if (mapped !== null) return `ip-${[mapped[1], mapped[2]].flatMap(bytesOf).join(".")}`;
  return `ip-${plainHost(`${groups.slice(0, 4).join(":")}::`)}/64`;
}

/** Splits an IPv6 address, in any of its spellings, into its eight groups. */
function groupsOf(address: string): readonly string[] | undefined {
  const host = plainHost(address.replace(/^\[|\]$|%.*$/g, ""));
  if (host === undefined) return undefined;
  const [head = [], tail] = host.split("::").map((part) => (part === "" ? [] : part.split(":")));
  if (tail === undefined) return head;
  return [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => "0"), ...tail];
}

/** Writes an IPv6 address as URLs do, short and in lower case; undefined if it is none. */
function plainHost(address: string): string | undefined {
  if (!/^[\da-f:.]+$/i.test(address)) return undefined;
  return URL.parse(`http://[${address}]`)?.hostname.slice(1, -1);
}

function bytesOf(group: string | undefined): readonly number[] {
  const value = Number.parseInt(group ?? "0", 16);
  return [value >> 8, value & 255];
}

/** The argument that Bun and Deno pass to a handler beside the request. */
interface ServerArgument {
  requestIP?(request: Request): { readonly address?: string } | null;
  readonly remoteAddr?: { readonly hostname?: string };
  readonly info?: ServerArgument;
}

/** Asks the runtime for the client's address: Bun's server, Deno's info, Cloudflare's field. Elsewhere it is not known. */
export function addressOfWorker(request: Request, beside: unknown): string | undefined {
  const server = typeof beside === "object" && beside !== null ? (beside as ServerArgument) : undefined;
  if (typeof server?.requestIP === "function") return server.requestIP(request)?.address;
  const remote = (server?.info ?? server)?.remoteAddr;
  if (typeof remote?.hostname === "string") return remote.hostname;
  // Cloudflare writes this field itself. On other runtimes any client can.
  return "cf" in request ? (request.headers.get("cf-connecting-ip") ?? undefined) : undefined;
}
