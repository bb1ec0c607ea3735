import { ts } from "@ts-morph/common";
import { type Comment, commentOf } from "./comments.ts";
import { programOf } from "./source-program.ts";
import { TypeText } from "./type-text.ts";

/** A property of an object: one row of a table. */
export interface Row {
  readonly name: string;
  readonly type: string;
  readonly isOptional: boolean;
  readonly comment: Comment;
  readonly mentions: readonly ts.Symbol[];
}

/** A function or a method, under a heading of its own. */
export interface Call {
  readonly name: string;
  readonly isStatic: boolean;
  readonly signature: string;
  readonly comment: Comment;
  readonly mentions: readonly ts.Symbol[];
}

/** A type that another one extends and that is exported itself. */
export interface Base {
  readonly symbol: ts.Symbol;
  /** Those that are taken over: all, or the ones that `Pick` names. */
  readonly rows: readonly Row[];
  readonly isPicked: boolean;
}

/** Something that an entry point exports. */
export interface Declared {
  readonly name: string;
  readonly symbol: ts.Symbol;
  readonly kind: "class" | "interface" | "type" | "function" | "const";
  readonly comment: Comment;
  /** The declaration as code, where it is not shown as tables. */
  readonly code: string | undefined;
  readonly mentions: readonly ts.Symbol[];
  readonly rows: readonly Row[];
  readonly calls: readonly Call[];
  readonly bases: readonly Base[];
}

/** Reads what files of src export, from their source: types as they are written, texts from the doc comments. */
export class Declarations {
  readonly #program: ts.Program;
  readonly #checker: ts.TypeChecker;
  readonly #text: TypeText;
  readonly #exported = new Map<ts.Symbol, string>();
  /** What is exported for a symbol of another name: the type that an alias stands for, the class that one extends. */
  readonly #exportedFor = new Map<ts.Symbol, ts.Symbol>();

  constructor(files: readonly string[]) {
    this.#program = programOf(files);
    this.#checker = this.#program.getTypeChecker();
    for (const file of files) {
      for (const { name, symbol } of this.#exportsOf(file))
        if (!this.#exported.has(symbol)) this.#exported.set(symbol, name);
    }
    for (const symbol of this.#exported.keys()) {
      for (const inner of this.#behind(symbol)) if (!this.#exportedFor.has(inner)) this.#exportedFor.set(inner, symbol);
    }
    this.#text = new TypeText(this.#checker, {
      nameOf: (symbol) => this.#exported.get(symbol),
      outside: (symbol) => this.#exportedFor.get(symbol) ?? symbol,
    });
  }

  /** What a file exports, in its order, under the names it gives; what is marked as internal is left out. */
  of(file: string): readonly Declared[] {
    return this.#exportsOf(file).map(({ name, symbol }) => this.#declared(name, symbol));
  }

  #exportsOf(file: string): readonly { readonly name: string; readonly symbol: ts.Symbol }[] {
    const source = this.#program.getSourceFile(file);
    const module = source && this.#checker.getSymbolAtLocation(source);
    if (module === undefined) throw new Error(`${file} is no module.`);
    return this.#checker
      .getExportsOfModule(module)
      .map((given) => ({ name: given.name, symbol: this.#aliased(given) }))
      .filter(({ symbol }) => !isInternal(symbol));
  }

  #aliased(symbol: ts.Symbol): ts.Symbol {
    return symbol.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol;
  }

  #behind(symbol: ts.Symbol): readonly ts.Symbol[] {
    const alias = symbol.declarations?.find(ts.isTypeAliasDeclaration)?.type;
    const node =
      alias !== undefined && ts.isTypeReferenceNode(alias)
        ? this.#checker.getSymbolAtLocation(alias.typeName)
        : undefined;
    const found = node === undefined ? [] : [this.#aliased(node)];
    if (symbol.flags & ts.SymbolFlags.Class) {
      const above = this.#checker.getBaseTypes(this.#checker.getDeclaredTypeOfSymbol(symbol) as ts.InterfaceType);
      found.push(...above.flatMap((type) => type.symbol ?? []));
    }
    // `Record` and its like are called so outside, too.
    const isOurs = (inner: ts.Symbol) =>
      inner.declarations?.some((node) => /\/(src|test\/kit)\//.test(node.getSourceFile().fileName));
    return found.filter((inner) => !this.#exported.has(inner) && isOurs(inner));
  }

  #declared(name: string, symbol: ts.Symbol): Declared {
    const nodes = symbol.declarations ?? [];
    const base = { name, symbol, comment: this.#comment(symbol), code: undefined, rows: [], calls: [], bases: [] };
    const value = nodes.find(ts.isVariableDeclaration);
    const alias = nodes.find(ts.isTypeAliasDeclaration);
    if (value !== undefined) return { ...base, kind: "const", mentions: [], ...this.#constant(value, alias) };
    const [node] = nodes;
    if (node === undefined) throw new Error(`${name} has no declaration.`);
    if (ts.isFunctionDeclaration(node)) {
      const call = this.#call(name, node, symbol);
      return { ...base, kind: "function", mentions: call.mentions, code: call.signature };
    }
    if (ts.isClassDeclaration(node)) {
      const [own, bases] = this.#classMembers(node);
      const { rows, calls } = this.#members(own);
      return {
        ...base,
        kind: "class",
        mentions: [],
        rows,
        calls: [...this.#constructors(name, node), ...calls],
        bases,
      };
    }
    if (ts.isInterfaceDeclaration(node)) {
      const [own, bases] = this.#interfaceMembers(node);
      return { ...base, kind: "interface", mentions: [], ...this.#members(own), bases };
    }
    if (ts.isTypeAliasDeclaration(node)) return { ...base, kind: "type", ...this.#alias(name, node) };
    throw new Error(`${name} is a ${ts.SyntaxKind[node.kind]}, of which the reference knows nothing.`);
  }

  /** A table of makers, or of names; `alias`: the type of the same name. */
  #constant(value: ts.VariableDeclaration, alias: ts.TypeAliasDeclaration | undefined) {
    const type = this.#checker.getTypeAtLocation(value);
    if (type.getCallSignatures().length > 0 && value.type !== undefined) {
      return {
        code: `const ${value.name.getText()}: ${this.#text.of(value.type)}`,
        mentions: this.#text.mentionsOf(value.type),
      };
    }
    const makers = this.#members(type.getProperties());
    if (alias === undefined) return makers;
    const shape = this.#members(this.#checker.getTypeAtLocation(alias.type).getProperties());
    return { calls: makers.calls, rows: shape.rows };
  }

  #alias(name: string, node: ts.TypeAliasDeclaration): Pick<Declared, "code" | "mentions"> {
    const text =
      this.#text.wordsIn(node.type) ??
      (isComputed(node.type)
        ? this.#checker.typeToString(
            this.#checker.getTypeAtLocation(node.type),
            undefined,
            ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.InTypeAlias,
          )
        : this.#text.withComments(node.type));
    return { code: `type ${name} = ${text.replace(/^\|\s*/, "")}`, mentions: this.#text.mentionsOf(node.type) };
  }

  /** Members of a class and of the classes above it that have no heading of their own. */
  #classMembers(node: ts.ClassDeclaration): [ts.Symbol[], Base[]] {
    const type = this.#checker.getTypeAtLocation(node) as ts.InterfaceType;
    const symbol = type.symbol;
    const statics = [...(symbol.exports?.values() ?? [])].filter(({ flags }) => !(flags & ts.SymbolFlags.Prototype));
    const bases = this.#basesAbove(type);
    const shown = new Set(
      bases.flatMap(({ symbol: above }) => this.#checker.getDeclaredTypeOfSymbol(above).getProperties().map(placeOf)),
    );
    const above = new Set(
      bases.flatMap(({ symbol: each }) =>
        this.#checker
          .getDeclaredTypeOfSymbol(each)
          .getProperties()
          .map(({ name }) => name),
      ),
    );
    // What only does the same another way is explained where it was first declared.
    const own = type
      .getProperties()
      .filter((member) => !shown.has(placeOf(member)) && !(above.has(member.name) && !isCommented(member)));
    return [[...statics, ...own], bases];
  }

  /** Of a class that users make themselves. Errors are made by the package. */
  #constructors(name: string, node: ts.ClassDeclaration): readonly Call[] {
    const made = node.members.find(ts.isConstructorDeclaration);
    if (
      made === undefined ||
      isHidden(made) ||
      ts.getJSDocTags(made).some(({ tagName }) => tagName.text === "internal")
    )
      return [];
    const isError = (type: ts.BaseType): boolean =>
      type.symbol?.name === "LimiterError" ||
      (this.#checker.getBaseTypes(type as ts.InterfaceType) ?? []).some(isError);
    if (isError(this.#checker.getTypeAtLocation(node) as ts.BaseType)) return [];
    const comment = (ts.getJSDocCommentsAndTags(made)[0] as ts.JSDoc | undefined)?.comment;
    return [
      {
        ...this.#call(`new ${name}`, made, (made as unknown as { symbol: ts.Symbol }).symbol),
        comment: commentOf(typeof comment === "string" ? comment : ""),
      },
    ];
  }

  #basesAbove(type: ts.InterfaceType): Base[] {
    const [above] = this.#checker.getBaseTypes(type);
    if (above?.symbol === undefined) return [];
    if (this.#exported.has(above.symbol)) return [{ symbol: above.symbol, rows: [], isPicked: false }];
    return this.#basesAbove(above as ts.InterfaceType);
  }

  #interfaceMembers(node: ts.InterfaceDeclaration): [ts.Symbol[], Base[]] {
    const own = node.members.flatMap((member) =>
      member.name === undefined ? [] : (this.#checker.getSymbolAtLocation(member.name) ?? []),
    );
    const bases: Base[] = [];
    for (const clause of (node.heritageClauses ?? []).flatMap(({ types }) => [...types])) {
      const picked = clause.expression.getText() === "Pick" ? clause.typeArguments?.[0] : undefined;
      const symbol = this.#aliased(
        this.#checker.getSymbolAtLocation(
          picked !== undefined && ts.isTypeReferenceNode(picked) ? picked.typeName : clause.expression,
        ) as ts.Symbol,
      );
      const members = this.#checker.getTypeAtLocation(clause).getProperties();
      if (!this.#exported.has(symbol)) own.push(...members);
      else bases.push({ symbol, rows: this.#members(members).rows, isPicked: picked !== undefined });
    }
    return [own, bases];
  }

  #members(symbols: readonly ts.Symbol[]): { readonly rows: readonly Row[]; readonly calls: readonly Call[] } {
    const rows: Row[] = [];
    const calls: Call[] = [];
    for (const symbol of symbols) {
      const [node] = symbol.declarations ?? [];
      if (node === undefined || isHidden(node) || isInternal(symbol)) continue;
      if (ts.isMethodDeclaration(node) || ts.isMethodSignature(node)) {
        if (node.name.getText().startsWith("#")) continue;
        calls.push(this.#call(`${node.name.getText()}${node.questionToken === undefined ? "" : "?"}`, node, symbol));
      } else if (ts.isPropertySignature(node) || ts.isPropertyDeclaration(node) || ts.isGetAccessorDeclaration(node)) {
        if (ts.isPrivateIdentifier(node.name)) continue;
        const maker = node.type && this.#makerOf(node.type);
        if (maker !== undefined) calls.push(this.#call(node.name.getText(), maker, symbol));
        else rows.push(...this.#rows(node.name.getText(), node, symbol));
      } else if (ts.isPropertyAssignment(node)) {
        const [type, comment] = [node.initializer.getText(), this.#comment(symbol)];
        rows.push({ name: node.name.getText(), type, isOptional: false, comment, mentions: [] });
      } else throw new Error(`${symbol.name} is a ${ts.SyntaxKind[node.kind]}, of which the reference knows nothing.`);
    }
    return { rows, calls };
  }

  /** The function type that a property has, by a name that is not exported. */
  #makerOf(type: ts.TypeNode): ts.FunctionTypeNode | undefined {
    if (!ts.isTypeReferenceNode(type)) return undefined;
    const symbol = this.#aliased(this.#checker.getSymbolAtLocation(type.typeName) as ts.Symbol);
    const alias = symbol?.declarations?.find(ts.isTypeAliasDeclaration);
    if (alias === undefined || this.#exported.has(symbol) || !ts.isFunctionTypeNode(alias.type)) return undefined;
    return alias.type;
  }

  /** A property, and below it those of the object that it is, where these say something themselves. */
  #rows(
    name: string,
    node: ts.PropertySignature | ts.PropertyDeclaration | ts.GetAccessorDeclaration,
    symbol: ts.Symbol,
  ): Row[] {
    const isOptional = (symbol.flags & ts.SymbolFlags.Optional) !== 0;
    const comment = this.#comment(symbol);
    if (node.type === undefined) throw new Error(`${name} has no declared type; declare one.`);
    const inner = objectIn(node.type);
    if (inner === undefined || !inner.members.every(ts.isPropertySignature) || inner.members.length < 2) {
      return [
        { name, type: this.#text.of(node.type), isOptional, comment, mentions: this.#text.mentionsOf(node.type) },
      ];
    }
    const isList = inner !== node.type;
    const rows = inner.members.filter(ts.isPropertySignature).flatMap((member) => {
      const below = this.#checker.getSymbolAtLocation(member.name) as ts.Symbol;
      return this.#rows(`${name}${isList ? "[]" : ""}.${member.name.getText()}`, member, below);
    });
    return [{ name, type: isList ? "object[]" : "object", isOptional, comment, mentions: [] }, ...rows];
  }

  #call(name: string, node: ts.SignatureDeclaration, symbol: ts.Symbol): Call {
    const parts = [...node.parameters.map(({ type }) => type), node.type].filter((type) => type !== undefined);
    if (node.type === undefined && !ts.isConstructorDeclaration(node)) {
      throw new Error(`${name} has an answer without a declared type; declare it.`);
    }
    return {
      name,
      isStatic: ts.isMethodDeclaration(node) && (ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Static) !== 0,
      signature: this.#text.signature(name, node),
      comment: this.#comment(symbol),
      mentions: [...new Set(parts.flatMap((part) => this.#text.mentionsOf(part)))],
    };
  }

  #comment(symbol: ts.Symbol): Comment {
    return commentOf(ts.displayPartsToString(symbol.getDocumentationComment(this.#checker)));
  }
}

function objectIn(type: ts.TypeNode): ts.TypeLiteralNode | undefined {
  if (ts.isTypeLiteralNode(type)) return type;
  if (ts.isTypeOperatorNode(type)) return objectIn(type.type);
  return ts.isArrayTypeNode(type) ? objectIn(type.elementType) : undefined;
}

/** Written as an operation on other types: what comes out of it says more. */
function isComputed(type: ts.TypeNode): boolean {
  if (ts.isUnionTypeNode(type)) return type.types.some(isComputed);
  return (
    (ts.isTypeOperatorNode(type) && type.operator === ts.SyntaxKind.KeyOfKeyword) || ts.isIndexedAccessTypeNode(type)
  );
}

/** Where a member is declared: a class that is overridden has another one. */
function placeOf(member: ts.Symbol): ts.Node | undefined {
  return member.declarations?.[0];
}

function isCommented(symbol: ts.Symbol): boolean {
  return (symbol.declarations ?? []).some((node) => ts.getJSDocCommentsAndTags(node).length > 0);
}

function isHidden(node: ts.Declaration): boolean {
  return (ts.getCombinedModifierFlags(node) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) !== 0;
}

function isInternal(symbol: ts.Symbol): boolean {
  return symbol.getJsDocTags().some(({ name }) => name === "internal");
}
