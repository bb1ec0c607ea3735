/** What Bun and Deno hand to a handler beside the request. */
interface ServerArgument {
  requestIP?(request: Request): { readonly address?: string } | null;
  readonly remoteAddr?: { readonly hostname?: string };
  readonly info?: ServerArgument;
}

/** The client's address as the runtime says it: Bun's server, Deno's info, Cloudflare's field. Elsewhere it is not known. */
export function addressOfWorker(request: Request, beside: unknown): string | undefined {
  const server = typeof beside === "object" && beside !== null ? (beside as ServerArgument) : undefined;
  if (typeof server?.requestIP === "function") return server.requestIP(request)?.address;
  const remote = (server?.info ?? server)?.remoteAddr;
  if (typeof remote?.hostname === "string") return remote.hostname;
  // Cloudflare writes this field itself. Where it is not Cloudflare that runs this, anybody can.
  return "cf" in request ? (request.headers.get("cf-connecting-ip") ?? undefined) : undefined;
}
