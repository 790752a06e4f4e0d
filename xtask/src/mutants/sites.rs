//! Where in a file the changes of a list can be built in beside the original, to be switched on when the program
//! runs. What cannot be switched so is left out, never guessed: constants and `const` functions have no running
//! program to ask, an operand with `let` cannot be put into brackets, and a removed field needs another type.

use super::list::Mutant;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A change that a site offers: its number and what it puts there.
pub(super) type Offer = (u32, String);

/// A place in the file with everything that may stand there instead.
#[derive(Debug)]
pub(super) struct Site {
    /// Bytes that are written anew; empty where something is put in.
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
    pub(super) offers: Vec<Offer>,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Two operands and the operator between them.
    Binary { left: Range<usize>, operator: Range<usize>, right: Range<usize> },
    /// An operator that may be left out before its operand.
    Unary { operator: Range<usize>, operand: Range<usize> },
    /// Where a function begins: it may return something else at once.
    Body,
    /// Behind a pattern, or its condition: the arm may not be there. The offers are for the condition.
    Arm { condition: Option<Range<usize>>, removed_by: Vec<u32> },
}

/// The sites of `source` for `mutants` of that file, outer ones before those inside them.
pub(super) fn find(source: &str, mutants: &[Mutant]) -> Result<Vec<Site>, String> {
    let tree = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut finder = Finder { mutants: mutants.iter().collect(), sites: Vec::new(), fixed: 0 };
    finder.visit_file(&tree);
    let mut sites = finder.sites;
    sites.sort_by_key(|site| (site.range.start, usize::MAX - site.range.end));
    Ok(sites)
}

struct Finder<'a> {
    /// Those that have no site yet.
    mutants: Vec<&'a Mutant>,
    sites: Vec<Site>,
    /// Inside how many constants.
    fixed: u32,
}

fn range(of: &impl Spanned) -> Range<usize> {
    of.span().byte_range()
}

/// Whether a condition binds names, so that it only means something where it stands.
fn binds(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(both) => binds(&both.left) || binds(&both.right),
        syn::Expr::Paren(inner) => binds(&inner.expr),
        _ => false,
    }
}

impl Finder<'_> {
    /// Takes the changes that are here, if they can be switched.
    fn take(&mut self, genre: &str, is_here: impl Fn(&Mutant) -> bool) -> Vec<Offer> {
        let mut offers = Vec::new();
        let fixed = self.fixed > 0;
        self.mutants.retain(|mutant| {
            let here = mutant.genre == genre && is_here(mutant);
            if here && !fixed {
                offers.push((mutant.id, mutant.replacement.clone()));
            }
            !here
        });
        offers
    }

    fn add(&mut self, range: Range<usize>, kind: Kind, offers: Vec<Offer>) {
        let removes = matches!(&kind, Kind::Arm { removed_by, .. } if !removed_by.is_empty());
        if removes || !offers.is_empty() {
            self.sites.push(Site { range, kind, offers });
        }
    }

    fn in_constant(&mut self, visit: impl FnOnce(&mut Self)) {
        self.fixed += 1;
        visit(self);
        self.fixed -= 1;
    }

    fn function(
        &mut self,
        signature: &syn::Signature,
        block: &syn::Block,
        visit: impl FnOnce(&mut Self),
    ) {
        let constant = u32::from(signature.constness.is_some());
        self.fixed += constant;
        // What stands for `impl Trait` is one type only, that of the original.
        let hidden = matches!(&signature.output, syn::ReturnType::Type(_, returned) if matches!(**returned, syn::Type::ImplTrait(_)));
        let body = range(block);
        let first = block.stmts.first().map_or(body.start, |first| range(first).start);
        let offers = self.take("FnValue", |mutant| {
            (body.start..=first).contains(&mutant.start) && mutant.end <= body.end
        });
        if !hidden {
            self.add(body.start + 1..body.start + 1, Kind::Body, offers);
        }
        visit(self);
        self.fixed -= constant;
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block, |finder| visit::visit_item_fn(finder, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block, |finder| visit::visit_impl_item_fn(finder, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        match &item.default {
            Some(block) => {
                self.function(&item.sig, block, |finder| visit::visit_trait_item_fn(finder, item));
            }
            None => visit::visit_trait_item_fn(self, item),
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.in_constant(|finder| visit::visit_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.in_constant(|finder| visit::visit_item_static(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.in_constant(|finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.in_constant(|finder| visit::visit_type_array(finder, array));
    }

    fn visit_expr_const(&mut self, block: &'ast syn::ExprConst) {
        self.in_constant(|finder| visit::visit_expr_const(finder, block));
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.in_constant(|finder| finder.visit_expr(&repeat.len));
    }

    fn visit_expr_binary(&mut self, both: &'ast syn::ExprBinary) {
        let operator = range(&both.op);
        let offers = self.take("BinaryOperator", |mutant| {
            mutant.start == operator.start && mutant.end == operator.end
        });
        if !binds(&both.left) && !binds(&both.right) {
            let (left, right) = (range(&both.left), range(&both.right));
            self.add(range(both), Kind::Binary { left, operator, right }, offers);
        }
        visit::visit_expr_binary(self, both);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let (operator, operand) = (range(&unary.op), range(&unary.expr));
        let offers = self.take("UnaryOperator", |mutant| mutant.start == operator.start);
        self.add(range(unary), Kind::Unary { operator, operand }, offers);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let (whole, pattern) = (range(arm), range(&arm.pat));
        // The comma behind an arm belongs to what is removed.
        let removed = self.take("MatchArm", |mutant| {
            (whole.start..=pattern.start).contains(&mutant.start)
                && (pattern.end..=whole.end + 1).contains(&mutant.end)
        });
        let condition = arm.guard.as_ref().map(|(_, condition)| range(condition));
        let mut offers = Vec::new();
        if let Some(condition) = &condition {
            offers = self.take("MatchArmGuard", |mutant| {
                mutant.start == condition.start && mutant.end <= condition.end
            });
        }
        let place = condition.clone().unwrap_or(pattern.end..pattern.end);
        let removed_by = removed.into_iter().map(|(id, _)| id).collect();
        self.add(place, Kind::Arm { condition, removed_by }, offers);
        visit::visit_arm(self, arm);
    }
}
