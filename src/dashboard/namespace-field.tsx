import { useState } from "preact/hooks";
import { isNamespace } from "./namespace-choice.ts";
import { Form, Select, TextInput } from "./parts.tsx";
import { useAction, useLoaded, useSession, useSettled } from "./session.tsx";
import type { Listed, Namespace } from "./shapes.ts";
import { FormError } from "./words.ts";

const OFFERED_MAX = 50;
const TYPING_MS = 250;

/** Chooses a namespace from a list, or by searching if there are more than the list can have. */
export function NamespaceField() {
  const { namespace, namespaces, choose } = useSession();
  const { names, hasMore } = namespaces;
  const options = names.includes(namespace) ? names : [namespace, ...names];
  return (
    <>
      <label class="side-field">
        <span>Namespace</span>
        <Select testid="namespace-select" value={namespace} options={options} onChange={choose} />
      </label>
      {hasMore && <NamespaceSearch />}
    </>
  );
}

/** Completes the names of namespaces at the service. */
function NamespaceSearch() {
  const { api, choose } = useSession();
  const [text, setText] = useState("");
  const search = useSettled(text.trim(), TYPING_MS);
  const { error, run, clear } = useAction();
  const found = useLoaded(
    async (signal) =>
      search === ""
        ? []
        : (await api.get<Listed<Namespace>>("/v1/namespaces", { search, limit: OFFERED_MAX }, signal)).items,
    [search],
    "beside",
  );
  const go = (name: string) =>
    run(async () => {
      if (name === "") return;
      if (!(await isNamespace(api, name)))
        throw new FormError(`There is no namespace ${name}, or the token has no access to it.`);
      setText("");
      choose(name);
    });
  return (
    <Form class="side-field" onSubmit={() => void go(text.trim())}>
      <TextInput
        type="search"
        aria-label="Find a namespace"
        testid="namespace-search"
        placeholder="Find a namespace"
        value={text}
        onValue={(typed) => {
          clear();
          setText(typed);
        }}
        offered={found.value?.map(({ name }) => ({ value: name })) ?? []}
      />
      {error !== undefined && (
        <small class="bad-text" role="alert" data-testid="namespace-search-error">
          {error.message}
        </small>
      )}
    </Form>
  );
}
