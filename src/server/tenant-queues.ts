/** A queue for each tenant, of which the next is taken in turn: one tenant that has much does not delay the others. */
export class TenantQueues<Item extends { readonly namespace: string }> {
  readonly #queues = new Map<string, Item[]>();

  push(item: Item): void {
    const queue = this.#queues.get(item.namespace);
    if (queue === undefined) this.#queues.set(item.namespace, [item]);
    else queue.push(item);
  }

  /** The oldest of the tenant whose turn it is. */
  shift(): Item | undefined {
    const [next] = this.#queues;
    if (next === undefined) return undefined;
    const [namespace, queue] = next;
    const item = queue.shift();
    this.#queues.delete(namespace);
    if (queue.length > 0) this.#queues.set(namespace, queue);
    return item;
  }

  /** Takes all of them out. */
  clear(): readonly Item[] {
    const all = [...this.#queues.values()].flat();
    this.#queues.clear();
    return all;
  }
}
