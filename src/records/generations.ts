import type { CommitReply } from "../ports/record-store.ts";

/**
 * The generations of namespaces, as far as this process has seen them: every answer brings the one of its namespace. A take compares
 * it on the server, so that one that is out of date does no harm.
 */
export class Generations {
  readonly #seen = new Map<string, number>();

  of(namespaceId: string): number {
    return this.#seen.get(namespaceId) ?? 0;
  }

  /** Answers may overtake each other: what was seen never goes back. */
  note(namespaceId: string, generation: number): void {
    if (generation > this.of(namespaceId)) this.#seen.set(namespaceId, generation);
  }

  noteAll({ generations }: Extract<CommitReply, { readonly kind: "done" }>): void {
    for (const [namespaceId, generation] of generations) this.note(namespaceId, generation);
  }
}
