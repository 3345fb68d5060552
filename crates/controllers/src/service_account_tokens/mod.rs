//! Owns the data of Secrets of type `kubernetes.io/service-account-token`: the token of the account that their annotation
//! names, the namespace and the certificate authority. Watches these Secrets and service accounts; fills Secrets, deletes
//! those whose account is not there, and takes those that are gone out of their account's list.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use rkube_operator::kube::api::{Api, DeleteParams, PostParams, Preconditions};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Informer, Item, Outcome, Queue, Selection};

use crate::Context;
use plan::{Account, TokenSecret};

const NAME: &str = "serviceaccount-token-controller";

/// What a token is of.
pub struct TokenClaims<'a> {
    pub namespace: &'a str,
    pub account: &'a str,
    pub account_uid: &'a str,
    pub secret: &'a str,
}

/// Makes the token of an account that is kept in a Secret, or says why not.
pub type SignToken = Arc<dyn Fn(&TokenClaims<'_>) -> Result<String, String> + Send + Sync>;

/// What is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// An account that was there.
    Account(Account),
    Secret(TokenSecret),
}

#[derive(Debug)]
enum Error {
    Api(kube::Error),
    Sign(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Api(error) => error.fmt(formatter),
            Error::Sign(why) => formatter.write_str(why),
        }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Error {
        Error::Api(error)
    }
}

pub async fn run(context: Context, sign: SignToken, root_ca: Arc<str>) {
    let queue: Queue<Work> = Queue::new();
    let adding = queue.clone();
    let accounts = ApiResource::erase::<ServiceAccount>(&());
    let accounts = context.caches.view(&accounts, Selection::default(), account).on_change(move |change| {
        let gone = change.old.filter(|old| change.new.is_none_or(|new| new.uid != old.uid));
        gone.into_iter().for_each(|account| adding.add(Work::Account(account.identity())));
    });
    let adding = queue.clone();
    let secrets = ApiResource::erase::<Secret>(&());
    let secrets = context.caches.view(&secrets, Selection::default(), token_secret).on_change(move |change| {
        change.new.or(change.old).into_iter().for_each(|secret| adding.add(Work::Secret(secret.identity())));
    });
    accounts.synced().await;
    secrets.synced().await;
    let tokens = Arc::new(Tokens { client: context.client, accounts, secrets, sign, root_ca });
    rkube_operator::run(NAME, queue, context.settings.concurrent_serviceaccount_token_syncs, move |work: Work| {
        let tokens = tokens.clone();
        async move {
            match work {
                Work::Account(account) => tokens.account(&account).await,
                Work::Secret(secret) => tokens.secret(&secret).await,
            }
        }
    })
    .await;
}

struct Tokens {
    client: Client,
    accounts: Informer<Account>,
    secrets: Informer<TokenSecret>,
    sign: SignToken,
    root_ca: Arc<str>,
}

impl Tokens {
    /// The tokens of an account go with it.
    async fn account(&self, account: &Account) -> Result<Outcome, Error> {
        if self.accounts.get(&account.namespace, &account.name).is_some_and(|found| found.uid == account.uid) {
            return Ok(Outcome::Unchanged);
        }
        let mut outcome = Outcome::Unchanged;
        for secret in self.secrets.in_namespace(&account.namespace).iter().filter(|secret| secret.is_of(account)) {
            outcome = self.delete(secret).await?;
        }
        Ok(outcome)
    }

    async fn secret(&self, secret: &TokenSecret) -> Result<Outcome, Error> {
        let TokenSecret { namespace, name, account, .. } = secret;
        if account.is_empty() {
            return Ok(Outcome::Unchanged);
        }
        let cached = self.accounts.get(namespace, account).filter(|found| secret.is_of(found));
        let Some(current) = self.secrets.get(namespace, name).filter(|found| found.uid == secret.uid) else {
            return match cached.filter(|account| account.secrets.contains(name)) {
                Some(_) => self.remove_reference(secret).await,
                None => Ok(Outcome::Unchanged),
            };
        };
        if current.account != *account || current.account_uid != secret.account_uid {
            // It changed, and is looked at as it is now.
            return Ok(Outcome::Unchanged);
        }
        let found = match cached {
            Some(found) => found,
            // A Secret may be seen before the account that was made before it.
            None => match self.find_account(secret).await? {
                Some(found) => found,
                None => return self.delete(secret).await,
            },
        };
        self.fill(&current, &found).await
    }

    async fn find_account(&self, secret: &TokenSecret) -> Result<Option<Arc<Account>>, Error> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &secret.namespace);
        let found = api.get_opt(&secret.account).await?.map(|account| Account::of(&account));
        Ok(found.filter(|account| secret.is_of(account)).map(Arc::new))
    }

    async fn fill(&self, secret: &TokenSecret, account: &Account) -> Result<Outcome, Error> {
        if secret.is_filled(&self.root_ca) {
            return Ok(Outcome::Unchanged);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &secret.namespace);
        let Some(live) = api.get_opt(&secret.name).await? else { return Ok(Outcome::Wrote) };
        let claims = TokenClaims {
            namespace: &secret.namespace,
            account: &account.name,
            account_uid: &account.uid,
            secret: &secret.name,
        };
        let token = || (self.sign)(&claims);
        let Some(filled) = plan::fill(live, secret, account, &self.root_ca, token).map_err(Error::Sign)? else {
            return Ok(Outcome::Wrote);
        };
        settle(api.replace(&secret.name, &PostParams::default(), &filled).await)
    }

    async fn delete(&self, secret: &TokenSecret) -> Result<Outcome, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &secret.namespace);
        let preconditions = Preconditions { uid: Some(secret.uid.clone()), ..Preconditions::default() };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        settle(api.delete(&secret.name, &parameters).await)
    }

    /// Takes a Secret that is gone out of its account's list.
    async fn remove_reference(&self, secret: &TokenSecret) -> Result<Outcome, Error> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &secret.namespace);
        let Some(mut live) = api.get_opt(&secret.account).await? else { return Ok(Outcome::Wrote) };
        if !secret.is_of(&Account::of(&live)) {
            return Ok(Outcome::Wrote);
        }
        live.secrets.get_or_insert_default().retain(|reference| reference.name.as_ref() != Some(&secret.name));
        // A conflict is tried again: nothing else would bring the Secret back to mind.
        match api.replace(&secret.account, &PostParams::default(), &live).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Outcome::Wrote),
            written => Ok(written.map(|_| Outcome::Wrote)?),
        }
    }
}

/// That somebody else was first is no failure: they are heard of.
fn settle<T>(written: Result<T, kube::Error>) -> Result<Outcome, Error> {
    match written {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Outcome::Wrote),
        written => Ok(written.map(|_| Outcome::Wrote)?),
    }
}

fn account(item: &Item) -> Option<Account> {
    item.parse().ok().map(|account| Account::of(&account))
}

/// Most Secrets hold no tokens, and need not be read.
fn token_secret(item: &Item) -> Option<TokenSecret> {
    let text = std::str::from_utf8(&item.json).ok()?;
    if !text.contains(plan::TYPE) {
        return None;
    }
    TokenSecret::of(&item.parse().ok()?)
}
