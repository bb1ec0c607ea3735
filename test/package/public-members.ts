import { ts } from "@ts-morph/common";

/** What is wrong with the public face of a package, as its declarations show it. */
export interface Findings {
  /** Exports and members without a doc comment: `RateLimiter.open`. */
  readonly undocumented: readonly string[];
  /** Classes that can be constructed by what the types say. */
  readonly constructible: readonly string[];
  /** How many exports and members were looked at. */
  readonly looked: number;
}

/** Walks over everything that these declaration files export, and over the members of it. */
export function publicMembers(files: readonly string[], options: ts.CompilerOptions): Findings {
  const program = ts.createProgram([...files], options);
  const checker = program.getTypeChecker();
  const undocumented = new Set<string>();
  const constructible = new Set<string>();
  const looked = new Set<ts.Node>();

  const look = (name: string, node: ts.Node, symbol: ts.Symbol | undefined): void => {
    if (looked.has(node)) return;
    looked.add(node);
    if ((symbol?.getDocumentationComment(checker).length ?? 0) === 0) undocumented.add(name);
  };
  const lookIntoType = (name: string, node: ts.TypeNode): void => {
    if (ts.isTypeLiteralNode(node)) for (const member of node.members) lookAtMember(name, member);
    else if (ts.isUnionTypeNode(node) || ts.isIntersectionTypeNode(node)) {
      for (const part of node.types) lookIntoType(name, part);
    } else if (ts.isParenthesizedTypeNode(node)) lookIntoType(name, node.type);
  };
  const lookAtMember = (owner: string, member: ts.ClassElement | ts.TypeElement): void => {
    if (ts.isConstructorDeclaration(member)) {
      if (!isHidden(member)) constructible.add(owner);
      return;
    }
    if (member.name === undefined || ts.isPrivateIdentifier(member.name) || isHidden(member)) return;
    const name = `${owner}.${member.name.getText()}`;
    look(name, member, checker.getSymbolAtLocation(member.name));
  };

  for (const file of files) {
    const source = program.getSourceFile(file);
    const module = source && checker.getSymbolAtLocation(source);
    if (module === undefined) throw new Error(`${file} is no module.`);
    for (const exported of checker.getExportsOfModule(module)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      for (const declaration of symbol.declarations ?? []) {
        look(exported.name, declaration, symbol);
        if (ts.isClassDeclaration(declaration) || ts.isInterfaceDeclaration(declaration)) {
          for (const member of declaration.members) lookAtMember(exported.name, member);
        } else if (ts.isVariableDeclaration(declaration)) {
          for (const member of checker.getTypeOfSymbol(symbol).getProperties()) {
            const [node] = member.declarations ?? [];
            // Makers are members; of a table of names the table is what has a meaning.
            if (node === undefined || !ts.isMethodSignature(node)) continue;
            look(`${exported.name}.${member.name}`, node, member);
          }
        } else if (ts.isTypeAliasDeclaration(declaration)) lookIntoType(exported.name, declaration.type);
      }
    }
  }
  return { undocumented: [...undocumented], constructible: [...constructible], looked: looked.size };
}

function isHidden(member: ts.Declaration): boolean {
  return (ts.getCombinedModifierFlags(member) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) !== 0;
}
