"""By which solver, and where, should few sampling steps be taken?"""
