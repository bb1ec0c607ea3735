/**
 * The key of a client by its address: of IPv4 the address, of IPv6 its /64 network, which is what one customer has. Undefined
 * without an address that can be read: all such clients would share one bucket.
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

/** The eight groups of an IPv6 address, in any of its spellings. */
function groupsOf(address: string): readonly string[] | undefined {
  const host = plainHost(address.replace(/^\[|\]$|%.*$/g, ""));
  if (host === undefined) return undefined;
  const [head = [], tail] = host.split("::").map((part) => (part === "" ? [] : part.split(":")));
  if (tail === undefined) return head;
  return [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => "0"), ...tail];
}

/** An IPv6 address as URLs write it, short and in lower case; undefined if it is none. */
function plainHost(address: string): string | undefined {
  if (!/^[\da-f:.]+$/i.test(address)) return undefined;
  return URL.parse(`http://[${address}]`)?.hostname.slice(1, -1);
}

function bytesOf(group: string | undefined): readonly number[] {
  const value = Number.parseInt(group ?? "0", 16);
  return [value >> 8, value & 255];
}
