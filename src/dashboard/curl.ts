import type { Me } from "./shapes.ts";
import { quoted } from "./words.ts";

/** A call of this very service for a shell: right for whatever store it has, which the commands of the package need to be told. */
export function curl({ me }: { readonly me: Me }, method: string, path: string, body: object | undefined): string {
  const parts = [
    "curl",
    ...(method === "GET" ? [] : [`-X ${method}`]),
    // Without tokens everybody is `local`.
    ...(me.id === "local" ? [] : ['-H "Authorization: Bearer $TOKEN"']),
    ...(body === undefined ? [] : [`-H "Content-Type: application/json" -d ${quoted(JSON.stringify(body))}`]),
    quoted(`${location.origin}${path}`),
  ];
  return parts.join(" ");
}
