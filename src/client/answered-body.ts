import type { RequestParts, ServiceCalls } from "./http.ts";
import type { Path } from "./path.ts";

/** The body of an answer of success, for the parts of a client that only the command line has. */
export async function bodyFrom<Body>(
  calls: ServiceCalls,
  method: string,
  path: Path,
  parts: RequestParts,
): Promise<Body> {
  return (await calls.answer<Body>(method, path, parts)).body;
}
